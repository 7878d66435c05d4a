output "gauge_hosts" {
  description = "The machines, as Gauge reads them: role, address, user, file of the private key, and through which role SSH reaches those without a public address."
  value = [for name in sort(keys(local.machines)) : {
    role    = local.machines[name]
    address = local.machines[name] == "generator" ? aws_instance.gauge[name].public_ip : aws_instance.gauge[name].private_ip
    user    = "admin"
    key     = var.ssh_private_key_file
    via     = local.machines[name] == "generator" ? null : "generator"
  }]
}
