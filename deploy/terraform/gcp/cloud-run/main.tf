# Weir as a service of Cloud Run. Google's front end terminates TLS, and load-balances requests over the instances.

module "config" {
  source  = "../../config"
  config  = var.config
  ports   = [var.port, var.health_port]
  longest = 10
}

# Reads the secrets; Weir itself needs no rights.
resource "google_service_account" "weir" {
  account_id   = "${var.name}-run"
  display_name = "Weir on Cloud Run"
}

resource "google_secret_manager_secret" "config" {
  secret_id = "${var.name}-config"

  replication {
    auto {}
  }
}

resource "google_secret_manager_secret_version" "config" {
  secret      = google_secret_manager_secret.config.id
  secret_data = var.config
}

resource "google_secret_manager_secret_iam_member" "config" {
  secret_id = google_secret_manager_secret.config.id
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${google_service_account.weir.email}"
}

resource "google_secret_manager_secret_iam_member" "secrets" {
  for_each  = toset([for one in values(var.secrets) : one.secret])
  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${google_service_account.weir.email}"
}

resource "google_cloud_run_v2_service" "weir" {
  name                = var.name
  location            = var.region
  ingress             = var.ingress
  deletion_protection = var.deletion_protection

  template {
    service_account                  = google_service_account.weir.email
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    timeout                          = "${var.timeout}s"
    max_instance_request_concurrency = var.concurrent_requests

    scaling {
      min_instance_count = var.replicas.min
      max_instance_count = var.replicas.max
    }

    dynamic "vpc_access" {
      for_each = var.network == null ? [] : [var.network]
      content {
        egress = "PRIVATE_RANGES_ONLY"

        network_interfaces {
          network    = vpc_access.value.network
          subnetwork = vpc_access.value.subnetwork
        }
      }
    }

    # The version is named, so that another configuration is another revision.
    volumes {
      name = "config"

      secret {
        secret       = google_secret_manager_secret.config.secret_id
        default_mode = 292

        items {
          path    = "weir.yaml"
          version = google_secret_manager_secret_version.config.version
        }
      }
    }

    containers {
      name  = "weir"
      image = var.image
      args  = ["--config", "/etc/weir/weir.yaml"]

      ports {
        name           = var.http2 ? "h2c" : "http1"
        container_port = var.port
      }

      # CPU also between requests: health checks of upstreams, telemetry and reloads go on then.
      resources {
        limits            = { cpu = tostring(var.cpu), memory = var.memory }
        cpu_idle          = false
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = var.secrets
        content {
          name = env.key

          value_source {
            secret_key_ref {
              secret  = env.value.secret
              version = env.value.version
            }
          }
        }
      }

      volume_mounts {
        name       = "config"
        mount_path = "/etc/weir"
      }

      startup_probe {
        period_seconds    = 1
        timeout_seconds   = 1
        failure_threshold = 30

        http_get {
          path = "/healthz"
          port = var.health_port
        }
      }

      # Three failures take longer than the 10 s that an instance has to drain.
      liveness_probe {
        period_seconds    = 10
        timeout_seconds   = 3
        failure_threshold = 3

        http_get {
          path = "/healthz"
          port = var.health_port
        }
      }
    }
  }

  traffic {
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    percent = 100
  }

  depends_on = [google_secret_manager_secret_iam_member.config, google_secret_manager_secret_iam_member.secrets]
}

resource "google_cloud_run_v2_service_iam_member" "public" {
  count    = var.public ? 1 : 0
  name     = google_cloud_run_v2_service.weir.name
  location = google_cloud_run_v2_service.weir.location
  role     = "roles/run.invoker"
  member   = "allUsers"
}
