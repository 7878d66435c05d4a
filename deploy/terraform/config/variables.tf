variable "config" {
  description = "Weir's configuration, as YAML."
  type        = string
  sensitive   = true
  validation {
    condition     = can(yamldecode(var.config).listen)
    error_message = "config must be a configuration of Weir with listen; `weir check` says more."
  }
}

variable "ports" {
  description = "Ports that the configuration has to listen on."
  type        = list(number)
}

variable "longest" {
  description = "Seconds after which the service kills a process that it has told to end."
  type        = number
}
