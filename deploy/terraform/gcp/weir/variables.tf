variable "name" {
  description = "Name of the deployment and prefix of its resources."
  type        = string
  default     = "weir"
}

variable "region" {
  description = "Region, such as europe-west3."
  type        = string
}

variable "machine" {
  description = "Type of the machines."
  type        = string
  default     = "n2d-standard-2"
}

variable "image" {
  description = "One image of Debian 12, such as debian-cloud/debian-12-bookworm-v20250910; not an image family."
  type        = string
  validation {
    condition     = can(regex("-v[0-9]{8}$", var.image))
    error_message = "image must end with its date, such as -v20250910."
  }
}

variable "package" {
  description = "The Debian package of Weir: its URL, which the machines can reach, and its SHA-256."
  type        = object({ url = string, sha256 = string })
  validation {
    condition     = startswith(var.package.url, "https://") && can(regex("^[0-9a-f]{64}$", var.package.sha256))
    error_message = "package.url must begin with https://, and package.sha256 be 64 hexadecimal digits."
  }
}

variable "config" {
  description = "Weir's configuration. It listens on 0.0.0.0 at port, and serves health at health_port. It is readable on the machines' metadata service: no secrets."
  type        = string
}

variable "port" {
  description = "Port of the load balancer and of Weir's listener, above 0."
  type        = number
  default     = 8080
}

variable "health_port" {
  description = "Port of the listener that has a route with builtin healthz at /healthz. Only the load balancer's probes reach it."
  type        = number
  default     = 8081
}

variable "replicas" {
  description = "Number of machines."
  type        = number
  default     = 3
  validation {
    condition     = var.replicas >= 2
    error_message = "At least 2 machines, so that one can be replaced while the other serves."
  }
}

variable "client_cidrs" {
  description = "Networks that may connect to the load balancer."
  type        = list(string)
  default     = ["0.0.0.0/0"]
}
