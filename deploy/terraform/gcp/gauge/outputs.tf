output "gauge_hosts" {
  description = "The machines, as Gauge reads them: role, address, user, file of the private key, and through which role SSH reaches those without a public address."
  value = [for name in sort(keys(local.machines)) : {
    role    = local.machines[name]
    address = local.machines[name] == "generator" ? google_compute_instance.gauge[name].network_interface[0].access_config[0].nat_ip : google_compute_instance.gauge[name].network_interface[0].network_ip
    user    = "gauge"
    key     = var.ssh_private_key_file
    via     = local.machines[name] == "generator" ? null : "generator"
  }]
}
