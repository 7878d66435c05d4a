# Weir on an auto scaling group of machines, behind the Network Load Balancer of AWS, which names the client in a PROXY header.

resource "aws_vpc" "weir" {
  cidr_block           = "10.80.0.0/16"
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

resource "aws_internet_gateway" "weir" {
  vpc_id = aws_vpc.weir.id
}

resource "aws_subnet" "weir" {
  count                   = length(var.zones)
  vpc_id                  = aws_vpc.weir.id
  availability_zone       = var.zones[count.index]
  cidr_block              = cidrsubnet("10.80.0.0/16", 8, count.index + 1)
  map_public_ip_on_launch = true
}

resource "aws_route_table" "weir" {
  vpc_id = aws_vpc.weir.id
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.weir.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.weir.id
}

resource "aws_route_table_association" "weir" {
  count          = length(var.zones)
  subnet_id      = aws_subnet.weir[count.index].id
  route_table_id = aws_route_table.weir.id
}

resource "aws_security_group" "balancer" {
  name        = "${var.name}-balancer"
  description = "The load balancer of Weir"
  vpc_id      = aws_vpc.weir.id
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each          = toset(var.client_cidrs)
  security_group_id = aws_security_group.balancer.id
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = var.port
  to_port           = var.port
}

resource "aws_vpc_security_group_egress_rule" "balancer" {
  for_each                     = toset([tostring(var.port), tostring(var.health_port)])
  security_group_id            = aws_security_group.balancer.id
  referenced_security_group_id = aws_security_group.machine.id
  ip_protocol                  = "tcp"
  from_port                    = tonumber(each.value)
  to_port                      = tonumber(each.value)
}

resource "aws_security_group" "machine" {
  name        = "${var.name}-machine"
  description = "The machines of Weir"
  vpc_id      = aws_vpc.weir.id
}

resource "aws_vpc_security_group_ingress_rule" "machine" {
  for_each                     = toset([tostring(var.port), tostring(var.health_port)])
  security_group_id            = aws_security_group.machine.id
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = tonumber(each.value)
  to_port                      = tonumber(each.value)
}

resource "aws_vpc_security_group_egress_rule" "machine" {
  security_group_id = aws_security_group.machine.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_lb" "weir" {
  name                             = var.name
  load_balancer_type               = "network"
  subnets                          = aws_subnet.weir[*].id
  security_groups                  = [aws_security_group.balancer.id]
  enable_cross_zone_load_balancing = true
}

# Weir's listener needs `proxy_protocol: v2`, and 10.80.0.0/16 in trusted_proxies.
resource "aws_lb_target_group" "weir" {
  name                 = var.name
  vpc_id               = aws_vpc.weir.id
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
  load_balancer_arn = aws_lb.weir.arn
  protocol          = "TCP"
  port              = var.port

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.weir.arn
  }
}

resource "aws_launch_template" "weir" {
  name_prefix            = "${var.name}-"
  image_id               = var.image
  instance_type          = var.machine
  vpc_security_group_ids = [aws_security_group.machine.id]
  user_data = base64encode(templatefile("${path.module}/../../boot/weir.sh.tftpl", {
    package_url    = base64encode(var.package.url)
    package_sha256 = base64encode(var.package.sha256)
    config         = base64encode(var.config)
  }))

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
}

resource "aws_autoscaling_group" "weir" {
  name                      = var.name
  vpc_zone_identifier       = aws_subnet.weir[*].id
  min_size                  = var.replicas
  max_size                  = var.replicas + 1
  desired_capacity          = var.replicas
  target_group_arns         = [aws_lb_target_group.weir.arn]
  health_check_type         = "ELB"
  health_check_grace_period = 180

  launch_template {
    id      = aws_launch_template.weir.id
    version = aws_launch_template.weir.latest_version
  }

  # A new machine serves before an old one leaves.
  instance_refresh {
    strategy = "Rolling"

    preferences {
      min_healthy_percentage = 100
      max_healthy_percentage = 134
    }
  }

  depends_on = [aws_lb_listener.weir, aws_route.out]
}
