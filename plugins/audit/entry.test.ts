import { createHash, createHmac } from 'node:crypto'
import t from 'tap'
import { draftOf } from './draft.ts'
import { fuzz } from './entry.fuzz.ts'
import { type Draft, type Entry, encodeEntry, MAX_LINE_BYTES, sealBy, sealedText } from './entry.ts'
import { parseEntry } from './parse.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const bare: Draft = { principal: 'ci', action: 'admin', resource: '/x', decision: 'allow', metadata: [] }

function sealed(draft: Draft, id = 1n, timestamp = 5n, prevHash?: string): Entry {
  const unsealed = { ...draft, id, timestamp, prevHash }
  return { ...unsealed, hash: sealBy(undefined)(sealedText(unsealed)) }
}

t.test('the hash is that of the formula, computed another way', async (t) => {
  const draft = draftOf({
    principal: 'ci',
    address: '192.0.2.7',
    requestId: 'r1',
    action: 'admin',
    resource: '/x',
    decision: 'deny',
    metadata: { b: '2', a: '1' },
  })
  const unsealed = { ...draft, id: 18446744073709551615n, timestamp: 1700000000123456789n, prevHash: 'ab'.repeat(32) }
  const text = `${'ab'.repeat(32)}18446744073709551615|1700000000123456789|ci|admin|/x|deny|a=1|b=2|request_id=r1|source_ip=192.0.2.7`
  t.equal(sealedText(unsealed), text)
  t.equal(sealBy(undefined)(text), createHash('sha256').update(Buffer.from(text)).digest('hex'))
  t.equal(sealBy(Buffer.from('k'))(text), createHmac('sha256', 'k').update(Buffer.from(text)).digest('hex'))
  const line = encodeEntry({ ...unsealed, hash: sealBy(undefined)(text) })
  t.match(line, '"id":18446744073709551615,"timestamp":1700000000123456789,', 'integers as they are')
  t.match(parseEntry(line), { id: 18446744073709551615n, timestamp: 1700000000123456789n })
})

t.test('no two records are sealed alike', async (t) => {
  const of = (principal: string, resource: string, metadata = {}) =>
    sealedText(sealed(draftOf({ principal, resource, action: 'admin', decision: 'allow', metadata })))
  t.not(of('a|admin|b', 'c'), of('a', 'b|admin|c'))
  t.not(of('a', 'b', { x: '1|y=2' }), of('a', 'b', { x: '1', y: '2' }))
  t.not(of('a|b', 'c'), of('a%7Cb', 'c'), 'nor do two values become one')
  t.not(of('a%7Cb', 'c'), of('a%257Cb', 'c'))
  t.equal(draftOf({ action: 'read', resource: '100% a%2Fb', decision: 'allow' }).resource, '100% a%2Fb', 'other percent signs stay')
})

t.test('values are bounded, and two long ones stay two', async (t) => {
  const long = (end: string) => draftOf({ principal: 'p'.repeat(300) + end, action: 'read', resource: 'r'.repeat(1e6), decision: 'allow' })
  t.equal(long('a').principal.length, 256)
  t.not(long('a').principal, long('b').principal)
  t.equal(long('a').resource.length, 1024)
  const most = '\u0000\ud83d\u009b'.repeat(1e4)
  const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}${most}`, most]))
  const draft = draftOf({ principal: most, address: most, requestId: most, action: most as 'read', resource: most, decision: 'allow', metadata })
  t.match(new Map(draft.metadata).get('metadata_left_out'), '38')
  t.ok(Buffer.byteLength(encodeEntry(sealed(draft))) <= MAX_LINE_BYTES)
})

t.test('names of members that the server copies are its own', async (t) => {
  const { metadata } = draftOf({ action: 'read', resource: 'r', decision: 'allow', metadata: { source_ip: 'x', 'a=b|c': 'y' } })
  t.same(metadata, [
    ['a_b_c', 'y'],
    ['source_ip_given', 'x'],
  ])
})

t.test('lines that are no entries are refused, saying why', async (t) => {
  const line = encodeEntry(sealed({ ...bare, metadata: [['a', '1']] })).trimEnd()
  t.type(parseEntry(line), 'object')
  t.type(parseEntry(line.replaceAll(',', ' , ').replaceAll(':', ': ')), 'object', 'blanks do not matter')
  const refused: [string, RegExp][] = [
    ['', /not JSON/],
    ['[]', /not a JSON object/],
    ['null', /not a JSON object/],
    [line.slice(0, -1), /not JSON/],
    [line.replace('"id":1', '"id":1.0'), /id is not/],
    [line.replace('"id":1', '"id":0'), /id is not/],
    [line.replace('"id":1', '"id":18446744073709551616'), /id is not/],
    [line.replace('"timestamp":5', '"timestamp":"5"'), /timestamp is not/],
    [line.replace('"allow"', '"maybe"'), /decision is neither/],
    [line.replace('"ci"', '7'), /principal is not a string/],
    [line.replace('"principal":"ci",', ''), /no member principal/],
    [line.replace('{"id"', '{"note":"x","id"'), /member "note" is none/],
    [line.replace('{"id"', '{"id":2,"id"'), /a member twice/],
    [line.replace('"a":"1"', '"a":"2","a":"1"'), /a member twice/],
    [line.replace('"a":"1"', '"a":1'), /not a string/],
    [line.replace('{"a":"1"}', '[]'), /metadata is not an object/],
    [line.replace('"a":"1"', '"a|b":"1"'), /value with "\|"/],
    [line.replace('"a":"1"', '"a=b":"1"'), /key with "="/],
    [line.replace('"ci"', '"c|i"'), /value with "\|"/],
    [line.replace('"metadata"', '"source_ip":"192.0.2.1","metadata"'), /source_ip is not what metadata/],
    [line.replace('"a":"1"', '"a":"1","request_id":"x"'), /request_id is not what metadata/],
    [line.replace('"event_hash":"', '"event_hash":"A'), /event_hash is not 64/],
    [line.replace('"event_hash"', '"prev_hash":"00","event_hash"'), /prev_hash is not 64/],
  ]
  for (const [text, why] of refused) t.match(parseEntry(text), why, text.slice(0, 80))
})

t.test('random records and corruptions', async (t) => {
  t.comment(`seed ${seed}`)
  t.ok(fuzz(seed, (entries) => entries < 1000) >= 1000)
})
