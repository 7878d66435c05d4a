variable "name" {
  description = "Name of the service and prefix of its resources."
  type        = string
  default     = "weir"
  validation {
    condition     = can(regex("^[a-zA-Z0-9]([-a-zA-Z0-9]{0,20}[a-zA-Z0-9])?$", var.name))
    error_message = "name must have 1 to 22 letters, digits and hyphens, and no hyphen at its ends."
  }
}

variable "image" {
  description = "Image of Weir by digest, such as 123456789012.dkr.ecr.eu-central-1.amazonaws.com/weir@sha256:..."
  type        = string
  validation {
    condition     = can(regex("^[^@]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must end with @sha256: and 64 hexadecimal digits."
  }
}

variable "shell_image" {
  description = "Image by digest that has sh, such as public.ecr.aws/docker/library/busybox@sha256:... Fargate mounts no secrets: a container of it writes the configuration into a volume of the task before Weir starts."
  type        = string
  validation {
    condition     = can(regex("^[^@]+@sha256:[0-9a-f]{64}$", var.shell_image))
    error_message = "shell_image must end with @sha256: and 64 hexadecimal digits."
  }
}

variable "architecture" {
  description = "Processor architecture of the images."
  type        = string
  default     = "X86_64"
  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "architecture must be X86_64 or ARM64."
  }
}

variable "config" {
  description = "Weir's configuration. It listens on 0.0.0.0 at port and at health_port, both with proxy_protocol: v2, and has admin: 127.0.0.1:9901. It is stored in Secrets Manager, and in Terraform's state: use secrets for passwords."
  type        = string
  sensitive   = true
  validation {
    condition     = length(var.config) <= 65536
    error_message = "config must not be longer than 64 KiB, as a secret may be."
  }
}

variable "secrets" {
  description = "Environment variables for $${NAME} in the configuration, each with the ARN of a secret in Secrets Manager."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for name, arn in var.secrets : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", name)) && can(regex("^arn:[a-z-]+:secretsmanager:", arn))])
    error_message = "secrets must map names of variables to ARNs of Secrets Manager."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "balancer_subnet_ids" {
  description = "Subnets of the load balancer, one in each of two or more zones; public ones unless internal is true. Their networks belong in trusted_proxies of the configuration."
  type        = list(string)
  validation {
    condition     = length(var.balancer_subnet_ids) >= 2
    error_message = "At least 2 subnets."
  }
}

variable "task_subnet_ids" {
  description = "Subnets of the tasks, in the same zones. They need a way to the registry, CloudWatch, Secrets Manager and the upstreams: a NAT gateway or endpoints."
  type        = list(string)
  validation {
    condition     = length(var.task_subnet_ids) >= 2
    error_message = "At least 2 subnets."
  }
}

variable "assign_public_ip" {
  description = "Whether tasks have public addresses, as a way out of public subnets. Nothing but the load balancer can connect to them."
  type        = bool
  default     = false
}

variable "internal" {
  description = "Whether the load balancer has private addresses only."
  type        = bool
  default     = false
}

variable "client_cidrs" {
  description = "IPv4 networks that may connect to the load balancer."
  type        = list(string)
  default     = ["0.0.0.0/0"]
}

variable "listener_port" {
  description = "Port of the load balancer."
  type        = number
  default     = 443
  validation {
    condition     = var.listener_port >= 1 && var.listener_port <= 65535
    error_message = "listener_port must be from 1 to 65535."
  }
}

variable "certificate_arn" {
  description = "Certificate with which the load balancer terminates TLS. null: it forwards bytes, and Weir terminates TLS itself or serves HTTP."
  type        = string
  default     = null
}

variable "http2" {
  description = "With certificate_arn: whether the load balancer offers HTTP/2 to clients. Weir's listener then needs http2: prior_knowledge."
  type        = bool
  default     = false
}

variable "idle_timeout" {
  description = "Seconds after which the load balancer closes a connection without data; only without certificate_arn, with it always 350."
  type        = number
  default     = 350
  validation {
    condition     = var.idle_timeout >= 60 && var.idle_timeout <= 6000
    error_message = "idle_timeout must be from 60 to 6000 seconds."
  }
}

variable "port" {
  description = "Port of Weir's listener for clients."
  type        = number
  default     = 8080
  validation {
    condition     = var.port > 1024 && var.port < 65536
    error_message = "port must be from 1025 to 65535: the container has no right to open lower ones."
  }
}

variable "health_port" {
  description = "Port of the listener that has a route with builtin healthz at /healthz. Only the load balancer reaches it."
  type        = number
  default     = 8081
  validation {
    condition     = var.health_port > 1024 && var.health_port < 65536 && var.health_port != var.port
    error_message = "health_port must be from 1025 to 65535, and another one than port."
  }
}

variable "cpu" {
  description = "CPU units of a task: 1024 are one core."
  type        = number
  default     = 1024
  validation {
    condition     = contains([256, 512, 1024, 2048, 4096, 8192, 16384], var.cpu)
    error_message = "cpu must be 256, 512, 1024, 2048, 4096, 8192 or 16384."
  }
}

variable "memory" {
  description = "Memory of a task in MiB; Fargate accepts 2 to 8 times the CPU units."
  type        = number
  default     = 2048
  validation {
    condition     = var.memory >= 2 * var.cpu && var.memory <= 8 * var.cpu
    error_message = "memory must be 2 to 8 times cpu."
  }
}

variable "replicas" {
  description = "Lowest and highest number of tasks."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 10 }
  validation {
    condition     = var.replicas.min >= 2 && var.replicas.max >= var.replicas.min
    error_message = "replicas.min must be at least 2, so that one can be replaced while the other serves, and replicas.max not lower."
  }
}

variable "target_cpu" {
  description = "Average CPU usage of the tasks in percent that the autoscaling keeps."
  type        = number
  default     = 60
  validation {
    condition     = var.target_cpu >= 10 && var.target_cpu <= 90
    error_message = "target_cpu must be from 10 to 90."
  }
}

variable "log_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 30
  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731], var.log_days)
    error_message = "log_days must be a number of days that CloudWatch knows: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545 or 731."
  }
}
