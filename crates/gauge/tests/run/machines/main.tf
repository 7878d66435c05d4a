# Machines for the tests of `deploy: {terraform: ..}`, of nothing but what is built into OpenTofu: servers of OpenSSH on this machine.

variable "folder" {
  description = "Where the machines keep their files, and where the tests say what goes wrong."
  type        = string
}

variable "hosts" {
  description = "Port of ssh, and role, by name."
  type        = map(object({ port = number, role = string }))
}

variable "fail" {
  description = "Whether the last resource cannot be made."
  type        = bool
  default     = false
}

variable "wait" {
  description = "Whether the last resource is made only when the folder has the file `go`."
  type        = bool
  default     = false
}

resource "terraform_data" "host" {
  for_each = var.hosts
  input = {
    folder = var.folder
    name   = each.key
    port   = each.value.port
    script = "${path.module}/host.sh"
  }

  provisioner "local-exec" {
    command = "sh '${self.output.script}' start '${self.output.folder}' '${self.output.name}' ${self.output.port}"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "sh '${self.output.script}' stop '${self.output.folder}' '${self.output.name}'"
  }
}

resource "terraform_data" "failing" {
  count      = var.fail ? 1 : 0
  depends_on = [terraform_data.host]

  provisioner "local-exec" {
    command = "echo the quota is exhausted; exit 1"
  }
}

resource "terraform_data" "slow" {
  count      = var.wait ? 1 : 0
  depends_on = [terraform_data.host]

  provisioner "local-exec" {
    command = "while [ ! -e '${var.folder}/go' ]; do sleep 0.1; done"
  }
}

output "gauge_hosts" {
  sensitive = true
  value = [for name, host in var.hosts : {
    role      = host.role
    address   = "127.0.0.1"
    port      = host.port
    key       = file("${var.folder}/key")
    directory = "${var.folder}/${name}/remote"
  }]
}
