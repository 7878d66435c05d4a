variable "name" {
  description = "Name of the deployment and prefix of its resources."
  type        = string
  default     = "gauge"
}

variable "zone" {
  description = "The one availability zone of all machines, such as eu-central-1a."
  type        = string
}

variable "machine" {
  description = "Type of every machine. It must be one that cluster placement groups accept."
  type        = string
  default     = "c7a.2xlarge"
}

variable "image" {
  description = "Identifier of an image of Debian 12 in the region, such as ami-0123456789abcdef0."
  type        = string
  validation {
    condition     = can(regex("^ami-[0-9a-f]+$", var.image))
    error_message = "image must be an identifier such as ami-0123456789abcdef0."
  }
}

variable "ssh_cidr" {
  description = "The network from which SSH reaches the generators, such as 203.0.113.7/32."
  type        = string
  validation {
    condition     = can(cidrhost(var.ssh_cidr, 0)) && !endswith(var.ssh_cidr, "/0")
    error_message = "ssh_cidr must be a network such as 203.0.113.7/32, and not everybody."
  }
}

variable "ssh_public_key" {
  description = "Public key of the user of the machines. The private key stays with you, and is not in the state."
  type        = string
}

variable "ssh_private_key_file" {
  description = "Path of the private key, for the output gauge_hosts."
  type        = string
}

variable "expires" {
  description = "When the machines may be deleted, in RFC 3339, such as 2027-01-31T18:00:00Z. A tag: nothing deletes them by itself."
  type        = string
  validation {
    condition     = can(formatdate("YYYY", var.expires))
    error_message = "expires must be a time in RFC 3339."
  }
}

variable "roles" {
  description = "The machines. Leave out upstream if the upstream runs beside the gateway."
  type        = set(string)
  default     = ["generator", "gateway", "upstream"]
  validation {
    condition     = length(setsubtract(["generator", "gateway"], var.roles)) == 0 && length(setsubtract(var.roles, ["generator", "gateway", "upstream"])) == 0
    error_message = "roles must have generator and gateway, and besides only upstream."
  }
}

variable "generators" {
  description = "How many machines send the load."
  type        = number
  default     = 1
  validation {
    condition     = var.generators >= 1 && var.generators <= 20
    error_message = "generators must be from 1 to 20."
  }
}
