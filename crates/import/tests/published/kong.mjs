// A description of an API as a declarative configuration of Kong, made by Kong's own converter (openapi-2-kong).
//
//   node kong.mjs FOLDER DESCRIPTION
//
// FOLDER has the converter in its node_modules.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(`${process.argv[2]}/`);
const { generateFromSpec } = require('openapi-2-kong');
const YAML = require('yaml');
// Large descriptions repeat more by alias than the parser allows by itself.
const spec = YAML.parse(readFileSync(process.argv[3], 'utf8'), { maxAliasCount: -1 });
const { documents } = await generateFromSpec(spec, 'kong-declarative-config', []);
console.log(YAML.stringify(documents[0]));
