byScenario('grpc_req_duration');
const client = new grpc.Client();
for (const file of descriptors) client.loadProtoset(file);
let connected = false;
// Numbers are read as texts with a NUL in front, so that they keep their digits.
const numbers = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const parsed = (text) => JSON.parse(text.replace(numbers, (token) => (token[0] === '"' ? token : `"\\u0000${token}"`)));
const isNumber = (value) => typeof value === 'string' && value[0] === '\0';
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const each = (value, map) => {
  const out = {};
  for (const name of Object.keys(value)) out[name] = map(value[name], name);
  return out;
};
const plain = (value) => {
  if (isNumber(value)) return Number(value.slice(1));
  if (Array.isArray(value)) return value.map(plain);
  return isObject(value) ? each(value, plain) : value;
};
const field = (value, kind) => {
  if (value === null) return value;
  if (isNumber(value) && (kind === 'text' || kind === 'number')) return value.slice(1);
  if (kind === 'text') return typeof value === 'string' ? value : JSON.stringify(plain(value));
  return messages[kind] === undefined ? plain(value) : fitted(value, kind);
};
// A field that has a text and is given something else gets the text of that.
const fitted = (value, name) => {
  if (!isObject(value)) return plain(value);
  return each(value, (part, key) => {
    const [kind, form] = messages[name][key] ?? ['other', 'one'];
    if (form === 'list' && Array.isArray(part)) return part.map((one) => field(one, kind));
    if (form === 'map' && isObject(part)) return each(part, (one) => field(one, kind));
    return field(part, kind);
  });
};
const call = (method, message, params, refused) => {
  if (!connected) {
    try {
      client.connect(address, { plaintext: true, timeout: params.timeout, maxReceiveSize: 67108864 });
      connected = true;
    } catch (error) {
      lost[/deadline/.test(String(error)) ? 'timeout' : 'connect'].add(1);
      sleep(0.1);
      return { message: null, headers: {} };
    }
  }
  let r;
  try {
    r = client.invoke(method, message(), params);
  } catch (error) {
    lost.unsent.add(1);
    return { message: null, headers: {} };
  }
  const isOk = r.status === grpc.StatusOK;
  // As a key its code would be a name.
  const status = isOk ? (refused(r.message) ? 0 : 200) : Number(r.status);
  responded(status, status === 200);
  return r;
};
