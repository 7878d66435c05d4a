# Weir as a service of ECS on Fargate, behind the Network Load Balancer of AWS, which names the client in a PROXY header.

module "config" {
  source  = "../../config"
  config  = var.config
  ports   = [var.port, var.health_port, 9901]
  longest = 120
}

resource "aws_secretsmanager_secret" "config" {
  name_prefix = "${var.name}-config-"
}

resource "aws_secretsmanager_secret_version" "config" {
  secret_id     = aws_secretsmanager_secret.config.id
  secret_string = var.config
}

resource "aws_cloudwatch_log_group" "weir" {
  name              = "/ecs/${var.name}"
  retention_in_days = var.log_days
}

locals {
  assume = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
    }]
  })
}

# What starts a task: pulls images, reads the secrets, writes the log.
resource "aws_iam_role" "execution" {
  name_prefix        = "${var.name}-execution-"
  assume_role_policy = local.assume
}

resource "aws_iam_role_policy_attachment" "execution" {
  role       = aws_iam_role.execution.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
}

resource "aws_iam_role_policy" "secrets" {
  name_prefix = "secrets-"
  role        = aws_iam_role.execution.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "secretsmanager:GetSecretValue"
      Resource = concat([aws_secretsmanager_secret.config.arn], values(var.secrets))
    }]
  })
}

# Weir itself needs no rights; it is there for yours.
resource "aws_iam_role" "task" {
  name_prefix        = "${var.name}-task-"
  assume_role_policy = local.assume
}

resource "aws_security_group" "balancer" {
  name_prefix = "${var.name}-balancer-"
  description = "The load balancer of Weir"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each          = toset(var.client_cidrs)
  security_group_id = aws_security_group.balancer.id
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = var.listener_port
  to_port           = var.listener_port
}

resource "aws_vpc_security_group_egress_rule" "balancer" {
  for_each                     = toset([tostring(var.port), tostring(var.health_port)])
  security_group_id            = aws_security_group.balancer.id
  referenced_security_group_id = aws_security_group.task.id
  ip_protocol                  = "tcp"
  from_port                    = tonumber(each.value)
  to_port                      = tonumber(each.value)
}

resource "aws_security_group" "task" {
  name_prefix = "${var.name}-task-"
  description = "The tasks of Weir"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "task" {
  for_each                     = toset([tostring(var.port), tostring(var.health_port)])
  security_group_id            = aws_security_group.task.id
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = tonumber(each.value)
  to_port                      = tonumber(each.value)
}

resource "aws_vpc_security_group_egress_rule" "task" {
  security_group_id = aws_security_group.task.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_lb" "weir" {
  name                             = var.name
  load_balancer_type               = "network"
  internal                         = var.internal
  subnets                          = var.balancer_subnet_ids
  security_groups                  = [aws_security_group.balancer.id]
  enable_cross_zone_load_balancing = true
}

# Weir's listeners need `proxy_protocol: v2`: health checks have the PROXY header too.
resource "aws_lb_target_group" "weir" {
  name                 = var.name
  vpc_id               = var.vpc_id
  target_type          = "ip"
  protocol             = "TCP"
  port                 = var.port
  proxy_protocol_v2    = true
  preserve_client_ip   = "false"
  deregistration_delay = 60

  health_check {
    protocol            = "HTTP"
    port                = tostring(var.health_port)
    path                = "/healthz"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

resource "aws_lb_listener" "weir" {
  load_balancer_arn        = aws_lb.weir.arn
  protocol                 = var.certificate_arn == null ? "TCP" : "TLS"
  port                     = var.listener_port
  certificate_arn          = var.certificate_arn
  ssl_policy               = var.certificate_arn == null ? null : "ELBSecurityPolicy-TLS13-1-2-2021-06"
  alpn_policy              = var.certificate_arn == null ? null : var.http2 ? "HTTP2Preferred" : "HTTP1Only"
  tcp_idle_timeout_seconds = var.certificate_arn == null ? var.idle_timeout : null

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.weir.arn
  }
}

resource "aws_ecs_cluster" "weir" {
  name = var.name
}

resource "aws_ecs_task_definition" "weir" {
  family                   = var.name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = tostring(var.cpu)
  memory                   = tostring(var.memory)
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task.arn

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  volume {
    name = "config"
  }

  container_definitions = jsonencode([
    {
      name       = "config"
      image      = var.shell_image
      essential  = false
      entryPoint = ["sh", "-c"]
      command    = ["umask 022 && printf '%s' \"$WEIR_CONFIG\" >/etc/weir/weir.yaml"]
      # The version is named, so that another configuration is another task.
      secrets          = [{ name = "WEIR_CONFIG", valueFrom = "${aws_secretsmanager_secret.config.arn}:::${aws_secretsmanager_secret_version.config.version_id}" }]
      mountPoints      = [{ sourceVolume = "config", containerPath = "/etc/weir", readOnly = false }]
      logConfiguration = local.log
    },
    {
      name                   = "weir"
      image                  = var.image
      essential              = true
      command                = ["--config", "/etc/weir/weir.yaml"]
      dependsOn              = [{ containerName = "config", condition = "SUCCESS" }]
      secrets                = [for name, arn in var.secrets : { name = name, valueFrom = arn }]
      mountPoints            = [{ sourceVolume = "config", containerPath = "/etc/weir", readOnly = true }]
      portMappings           = [for port in [var.port, var.health_port] : { containerPort = port, protocol = "tcp" }]
      readonlyRootFilesystem = true
      linuxParameters        = { capabilities = { drop = ["ALL"] } }
      ulimits                = [{ name = "nofile", softLimit = 65535, hardLimit = 65535 }]
      stopTimeout            = module.config.stop_seconds
      logConfiguration       = local.log
      healthCheck = {
        command     = ["CMD", "weir", "probe", "http://127.0.0.1:9901/livez"]
        interval    = 10
        timeout     = 5
        retries     = 3
        startPeriod = 30
      }
    },
  ])
}

locals {
  # Non-blocking: requests never wait for the log.
  log = {
    logDriver = "awslogs"
    options = {
      awslogs-group         = aws_cloudwatch_log_group.weir.name
      awslogs-region        = aws_cloudwatch_log_group.weir.region
      awslogs-stream-prefix = "weir"
      mode                  = "non-blocking"
      max-buffer-size       = "4m"
    }
  }
}

resource "aws_ecs_service" "weir" {
  name                               = var.name
  cluster                            = aws_ecs_cluster.weir.id
  task_definition                    = aws_ecs_task_definition.weir.arn
  launch_type                        = "FARGATE"
  desired_count                      = var.replicas.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = 60
  enable_execute_command             = false
  wait_for_steady_state              = true

  # A configuration that does not start leaves the old tasks in service.
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.task_subnet_ids
    security_groups  = [aws_security_group.task.id]
    assign_public_ip = var.assign_public_ip
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.weir.arn
    container_name   = "weir"
    container_port   = var.port
  }

  # The autoscaling sets it.
  lifecycle {
    ignore_changes = [desired_count]
  }

  depends_on = [aws_lb_listener.weir, aws_iam_role_policy.secrets, aws_iam_role_policy_attachment.execution]
}

resource "aws_appautoscaling_target" "weir" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.weir.name}/${aws_ecs_service.weir.name}"
  min_capacity       = var.replicas.min
  max_capacity       = var.replicas.max
}

resource "aws_appautoscaling_policy" "cpu" {
  name               = "${var.name}-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.weir.service_namespace
  scalable_dimension = aws_appautoscaling_target.weir.scalable_dimension
  resource_id        = aws_appautoscaling_target.weir.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.target_cpu
    scale_in_cooldown  = 300
    scale_out_cooldown = 60

    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}
