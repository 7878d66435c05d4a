output "gauge_hosts" {
  description = "The machines: role, address, user, and the file of the private key. Addresses other than the generator's are private."
  value = [for role in sort(var.roles) : {
    role    = role
    address = role == "generator" ? azurerm_public_ip.generator.ip_address : azurerm_network_interface.gauge[role].private_ip_address
    user    = "gauge"
    key     = var.ssh_private_key_file
  }]
}
