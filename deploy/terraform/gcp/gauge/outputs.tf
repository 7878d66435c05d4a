output "gauge_hosts" {
  description = "The machines: role, address, user, and the file of the private key. Addresses other than the generator's are private."
  value = [for role in sort(var.roles) : {
    role    = role
    address = role == "generator" ? google_compute_instance.gauge[role].network_interface[0].access_config[0].nat_ip : google_compute_instance.gauge[role].network_interface[0].network_ip
    user    = "gauge"
    key     = var.ssh_private_key_file
  }]
}
