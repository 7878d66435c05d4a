# Weir on a regional group of machines, behind the passthrough Network Load Balancer of Google Cloud.

resource "google_compute_network" "weir" {
  name                    = var.name
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "weir" {
  name          = var.name
  region        = var.region
  network       = google_compute_network.weir.id
  ip_cidr_range = "10.80.1.0/24"
}

resource "google_compute_firewall" "clients" {
  name          = "${var.name}-clients"
  network       = google_compute_network.weir.id
  source_ranges = var.client_cidrs
  target_tags   = [var.name]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.port)]
  }
}

# The networks from which Google's health checks come.
resource "google_compute_firewall" "health" {
  name          = "${var.name}-health"
  network       = google_compute_network.weir.id
  source_ranges = ["35.191.0.0/16", "209.85.152.0/22", "209.85.204.0/22", "130.211.0.0/22"]
  target_tags   = [var.name]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.health_port)]
  }
}

resource "google_compute_region_health_check" "weir" {
  name                = var.name
  region              = var.region
  check_interval_sec  = 5
  timeout_sec         = 5
  healthy_threshold   = 2
  unhealthy_threshold = 2

  http_health_check {
    port         = var.health_port
    request_path = "/healthz"
  }
}

resource "google_compute_instance_template" "weir" {
  name_prefix  = "${var.name}-"
  region       = var.region
  machine_type = var.machine
  tags         = [var.name]
  metadata = {
    startup-script = templatefile("${path.module}/../../boot/weir.sh.tftpl", {
      package_url    = base64encode(var.package.url)
      package_sha256 = base64encode(var.package.sha256)
      config         = base64encode(var.config)
    })
  }

  disk {
    source_image = var.image
    boot         = true
    auto_delete  = true
  }

  # A public address is the way out to the package; the firewall lets in the load balancer's port alone.
  network_interface {
    subnetwork = google_compute_subnetwork.weir.id

    access_config {
      network_tier = "PREMIUM"
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_region_instance_group_manager" "weir" {
  name               = var.name
  region             = var.region
  base_instance_name = var.name
  target_size        = var.replicas

  version {
    instance_template = google_compute_instance_template.weir.self_link
  }

  auto_healing_policies {
    health_check      = google_compute_region_health_check.weir.id
    initial_delay_sec = 180
  }

  # Google's limits here are whole numbers of zones: a region has three or four.
  update_policy {
    type                         = "PROACTIVE"
    minimal_action               = "REPLACE"
    max_surge_fixed              = 4
    max_unavailable_fixed        = 0
    instance_redistribution_type = "PROACTIVE"
  }
}

# Packets arrive with the client's own address: Weir sees it without a PROXY header.
resource "google_compute_region_backend_service" "weir" {
  name                            = var.name
  region                          = var.region
  load_balancing_scheme           = "EXTERNAL"
  protocol                        = "TCP"
  health_checks                   = [google_compute_region_health_check.weir.id]
  connection_draining_timeout_sec = 60

  backend {
    group          = google_compute_region_instance_group_manager.weir.instance_group
    balancing_mode = "CONNECTION"
  }
}

resource "google_compute_address" "weir" {
  name   = var.name
  region = var.region
}

resource "google_compute_forwarding_rule" "weir" {
  name                  = var.name
  region                = var.region
  load_balancing_scheme = "EXTERNAL"
  ip_protocol           = "TCP"
  ip_address            = google_compute_address.weir.address
  ports                 = [tostring(var.port)]
  backend_service       = google_compute_region_backend_service.weir.id
}
