# Machines for a measurement: one type, one zone, one placement group. Only generators have a public address, and only for SSH.

locals {
  # By name: each role once, and further generators.
  machines = merge({ for role in var.roles : role => role }, { for number in range(2, var.generators + 1) : "generator-${number}" => "generator" })
  region   = replace(var.zone, "/-[a-z]$/", "")
  # Labels have neither colons nor capitals.
  labels = { expires = lower(replace(var.expires, "/[^0-9A-Za-z]/", "-")) }
}

resource "google_compute_network" "gauge" {
  name                    = var.name
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "gauge" {
  name          = var.name
  region        = local.region
  network       = google_compute_network.gauge.id
  ip_cidr_range = "10.90.1.0/24"
}

resource "google_compute_firewall" "ssh" {
  name          = "${var.name}-ssh"
  network       = google_compute_network.gauge.id
  source_ranges = [var.ssh_cidr]
  target_tags   = ["${var.name}-generator"]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}

resource "google_compute_firewall" "inside" {
  name          = "${var.name}-inside"
  network       = google_compute_network.gauge.id
  source_ranges = ["10.90.1.0/24"]

  allow {
    protocol = "all"
  }
}

resource "google_compute_resource_policy" "gauge" {
  name   = var.name
  region = local.region

  group_placement_policy {
    collocation = "COLLOCATED"
  }
}

resource "google_compute_instance" "gauge" {
  for_each          = local.machines
  name              = "${var.name}-${each.key}"
  zone              = var.zone
  machine_type      = var.machine
  labels            = merge(local.labels, { role = each.value })
  tags              = ["${var.name}-${each.value}"]
  resource_policies = [google_compute_resource_policy.gauge.self_link]
  metadata = {
    ssh-keys               = "gauge:${var.ssh_public_key}"
    block-project-ssh-keys = "true"
  }

  boot_disk {
    initialize_params {
      image  = var.image
      labels = local.labels
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.gauge.id

    dynamic "access_config" {
      for_each = each.value == "generator" ? [1] : []
      content {
        network_tier = "PREMIUM"
      }
    }
  }

  # Compact placement cannot move a running machine.
  scheduling {
    automatic_restart   = false
    on_host_maintenance = "TERMINATE"
  }
}
