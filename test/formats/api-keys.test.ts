/** The worked examples of docs/formats/api-keys.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Envelope } from '../../plugins/api_keys/envelope.ts'
import { decodeObject, encodeObject } from '../../plugins/api_keys/key-object.ts'
import { checkRecord } from '../../plugins/api_keys/key-record.ts'
import { lookupOf } from '../../plugins/api_keys/key-text.ts'
import { matches, type Phc, parsePhc } from '../../plugins/api_keys/phc.ts'
import { decodeKeyFile } from '../../plugins/api_keys/runtime-file.ts'

const page = readFileSync(new URL('../../docs/formats/api-keys.md', import.meta.url), 'utf8')
const fence = (name: string): string => new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? ''
const [, text] = /a key `([^`]+)`/.exec(page) as RegExpExecArray
const [, master] = /Under the master key `([^`]+)`/.exec(page) as RegExpExecArray

t.test('an entry of the state store', async (t) => {
  const record = checkRecord(JSON.parse(fence('record')))
  t.match(record, { name: 'ci', namespaces: ['red'], roles: ['writer'], key_prefix: lookupOf(text) })
  t.ok(await matches(parsePhc(record.key_hash) as Phc, text), 'the hash is that of the key')
})

t.test('the file of version 1 has the same', async (t) => {
  const example = fence('runtime')
  const revoked = { name: 'old', ...JSON.parse(fence('revocation')) }
  t.same(decodeKeyFile(example), { keys: [JSON.parse(fence('record'))], revoked: [revoked] })
  t.throws(() => decodeKeyFile(example.replace('"red"', '"ted"')), /its checksum does not fit/)
  t.throws(() => decodeKeyFile(example.replace('"version": 1', '"version": 2')), /it has version 2, and this program reads 1/)
})

t.test('objects: in the clear and sealed they are the same record', async (t) => {
  const record = checkRecord(JSON.parse(fence('record')))
  t.same(decodeObject(JSON.parse(fence('clear')), record.id, undefined), record)
  t.same(encodeObject(record, undefined), JSON.parse(fence('clear')))
  const envelope = new Envelope(Buffer.from(master, 'base64'))
  const sealed = JSON.parse(fence('sealed'))
  t.same(decodeObject(sealed, record.id, envelope), record)
  t.same(Object.keys(envelope.seal(record)), Object.keys(sealed))
  t.same(envelope.open(envelope.seal(record)), record)
})
