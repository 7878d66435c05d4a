variable "name" {
  description = "Name of the deployment and prefix of its resources."
  type        = string
  default     = "gauge"
}

variable "location" {
  description = "Region, such as westeurope."
  type        = string
}

variable "zone" {
  description = "The one availability zone of all machines."
  type        = string
  default     = "1"
}

variable "machine" {
  description = "Size of every machine. It must support accelerated networking."
  type        = string
  default     = "Standard_D8as_v5"
}

variable "image_version" {
  description = "Version of the image Debian:debian-12:12-gen2, as `az vm image list --publisher Debian --offer debian-12 --sku 12-gen2 --all` prints it."
  type        = string
  validation {
    condition     = can(regex("^[0-9]+[.][0-9]+[.][0-9]+$", var.image_version))
    error_message = "image_version must be a version such as 0.20250101.2000, not latest."
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
