# Machines for a measurement: one type, one zone, one placement group. Only generators have a public address, and only for SSH.

locals {
  # By name: each role once, and further generators.
  machines = merge({ for role in var.roles : role => role }, { for number in range(2, var.generators + 1) : "generator-${number}" => "generator" })
}

resource "aws_vpc" "gauge" {
  cidr_block = "10.90.0.0/16"
  tags       = { Name = var.name, expires = var.expires }
}

resource "aws_internet_gateway" "gauge" {
  vpc_id = aws_vpc.gauge.id
  tags   = { expires = var.expires }
}

resource "aws_subnet" "gauge" {
  vpc_id            = aws_vpc.gauge.id
  availability_zone = var.zone
  cidr_block        = "10.90.1.0/24"
  tags              = { expires = var.expires }
}

resource "aws_route_table" "gauge" {
  vpc_id = aws_vpc.gauge.id
  tags   = { expires = var.expires }
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.gauge.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.gauge.id
}

resource "aws_route_table_association" "gauge" {
  subnet_id      = aws_subnet.gauge.id
  route_table_id = aws_route_table.gauge.id
}

resource "aws_security_group" "gauge" {
  name        = var.name
  description = "Machines of a measurement"
  vpc_id      = aws_vpc.gauge.id
  tags        = { expires = var.expires }
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  security_group_id = aws_security_group.gauge.id
  cidr_ipv4         = var.ssh_cidr
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
}

resource "aws_vpc_security_group_ingress_rule" "inside" {
  security_group_id            = aws_security_group.gauge.id
  referenced_security_group_id = aws_security_group.gauge.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "out" {
  security_group_id = aws_security_group.gauge.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_key_pair" "gauge" {
  key_name   = var.name
  public_key = var.ssh_public_key
  tags       = { expires = var.expires }
}

resource "aws_placement_group" "gauge" {
  name     = var.name
  strategy = "cluster"
  tags     = { expires = var.expires }
}

resource "aws_instance" "gauge" {
  for_each                    = local.machines
  ami                         = var.image
  instance_type               = var.machine
  subnet_id                   = aws_subnet.gauge.id
  placement_group             = aws_placement_group.gauge.name
  vpc_security_group_ids      = [aws_security_group.gauge.id]
  key_name                    = aws_key_pair.gauge.key_name
  associate_public_ip_address = each.value == "generator"
  tags                        = { Name = "${var.name}-${each.key}", expires = var.expires, role = each.value }
  volume_tags                 = { expires = var.expires }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
}
