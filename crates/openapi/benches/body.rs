//! Cost of holding a request to its description. `cargo bench -p openapi --bench body`
//!
//! Bars: `json_of_1_kib` at most 5 us, `parameters` at most 1 us.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use divan::Bencher;
use openapi::{BodyLength, Contract, Head, Options};

fn main() {
    divan::main();
}

const DESCRIPTION: &str = r#"
openapi: 3.1.0
info: {title: Orders, version: '1'}
paths:
  /orders/{id}:
    put:
      operationId: put
      parameters:
        - {name: id, in: path, required: true, schema: {type: integer, minimum: 1}}
        - {name: page, in: query, schema: {type: integer, maximum: 1000}}
        - {name: sort, in: query, schema: {type: string, enum: [price, name]}}
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [customer, items]
              additionalProperties: false
              properties:
                customer: {type: string, minLength: 1, maxLength: 64}
                note: {type: string, maxLength: 2000}
                express: {type: boolean}
                items:
                  type: array
                  minItems: 1
                  maxItems: 100
                  items:
                    type: object
                    required: [sku, quantity]
                    properties:
                      sku: {type: string, pattern: '^[A-Z]{3}-[0-9]{4}$'}
                      quantity: {type: integer, minimum: 1, maximum: 1000}
                      price: {type: number, exclusiveMinimum: 0}
"#;

fn contract() -> Arc<Contract> {
    let source = BTreeMap::from([("api.yaml".to_owned(), DESCRIPTION.as_bytes().to_vec())]);
    let options = Options { validates: true, ..Options::default() };
    let mut api = openapi::load(&source, "api.yaml", &options).unwrap();
    api.operations.remove(0).contract.unwrap()
}

/// A valid order of 1 KiB.
fn body() -> String {
    let items: Vec<String> = (0..12)
        .map(|number| format!(r#"{{"sku":"ABC-{number:04}","quantity":{},"price":9.95}}"#, number + 1))
        .collect();
    let start = format!(r#"{{"customer":"c-17","express":true,"items":[{}],"note":""#, items.join(","));
    format!("{start}{}\"}}", "x".repeat(1024 - start.len() - 2))
}

const FIELDS: [(&[u8], &[u8]); 4] = [
    (b"host", b"orders.example.com"),
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"user-agent", b"bench"),
];

fn head(query: Option<&'static [u8]>) -> Head<'static> {
    Head {
        path: b"/orders/17",
        query,
        fields: &|each| FIELDS.iter().for_each(|(name, value)| each(name, value)),
        body: BodyLength::Some,
    }
}

#[divan::bench]
fn parameters(bencher: Bencher<'_, '_>) {
    let contract = contract();
    let head = head(Some(b"page=3&sort=price"));
    bencher.bench_local(|| assert!(contract.check_head(black_box(&head)).0.is_empty()));
}

#[divan::bench]
fn json_of_1_kib(bencher: Bencher<'_, '_>) {
    let (contract, body) = (contract(), body());
    assert_eq!(body.len(), 1024);
    let check = contract.check_head(&head(None)).1.unwrap();
    bencher.bench_local(|| assert!(contract.check_body(&check, black_box(body.as_bytes())).is_empty()));
}
