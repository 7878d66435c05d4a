output "gauge_hosts" {
  description = "The machines: role, address, user, and the file of the private key. Addresses other than the generator's are private."
  value = [for role in sort(var.roles) : {
    role    = role
    address = role == "generator" ? aws_instance.gauge[role].public_ip : aws_instance.gauge[role].private_ip
    user    = "admin"
    key     = var.ssh_private_key_file
  }]
}
