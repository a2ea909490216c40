/** The worked examples of docs/formats/api-keys.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Envelope } from '../../plugins/api_keys/envelope.ts'
import { checkRecord } from '../../plugins/api_keys/key-record.ts'
import { lookupOf } from '../../plugins/api_keys/key-text.ts'
import { matches, type Phc, parsePhc } from '../../plugins/api_keys/phc.ts'
import { decodeRuntimeKeys, encodeRuntimeKeys } from '../../plugins/api_keys/runtime-file.ts'

const page = readFileSync(new URL('../../docs/formats/api-keys.md', import.meta.url), 'utf8')
const fence = (name: string): string => new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? ''
const [, text] = /The key `([^`]+)`/.exec(page) as RegExpExecArray
const [, master] = /Under the master key `([^`]+)`/.exec(page) as RegExpExecArray

t.test('runtime keys: decode, and encode to the same bytes', async (t) => {
  const example = fence('runtime')
  const decoded = decodeRuntimeKeys(example)
  t.match(decoded, { keys: [{ name: 'ci', namespaces: ['red'], roles: ['writer'] }], revoked: [{ name: 'old', revoked_at: 1_700_000_100 }] })
  t.equal(encodeRuntimeKeys(decoded), example)
  const [{ key_hash, key_prefix }] = decoded.keys
  t.equal(key_prefix, lookupOf(text))
  t.ok(await matches(parsePhc(key_hash) as Phc, text), 'the hash is that of the key')
  t.throws(() => decodeRuntimeKeys(example.replace('"red"', '"ted"')), /its checksum does not fit/)
  t.throws(() => decodeRuntimeKeys(example.replace('"version": 1', '"version": 2')), /it has version 2, and this program reads 1/)
})

t.test('stored keys: in the clear and sealed they are the same record', async (t) => {
  const { version, ...record } = JSON.parse(fence('clear'))
  t.equal(version, 1)
  t.same(checkRecord(record), decodeRuntimeKeys(fence('runtime')).keys[0])
  const envelope = new Envelope(Buffer.from(master, 'base64'))
  const sealed = JSON.parse(fence('sealed'))
  t.same(envelope.open(sealed), record)
  t.same(Object.keys(envelope.seal(record)), Object.keys(sealed))
  t.same(envelope.open(envelope.seal(record)), record)
})
