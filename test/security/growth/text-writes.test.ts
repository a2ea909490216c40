/** Line protocol, JSON and what their clients ask beside writing. */
import t from 'tap'
import { type Family, filled } from '../../support/growth.ts'
import { type GrowingRequest, growthNode, requestsGrow } from './requests.ts'

const T = '1700000000000000000'
const BYTES = 2_000_000
const line = (body: Family<string>, bytes = BYTES): GrowingRequest => ({ url: '/write', headers: { 'content-type': 'text/plain' }, bytes, body })
const json = (url: string, body: Family<string>, bytes = BYTES): GrowingRequest => ({ url, headers: { 'content-type': 'application/json' }, bytes, body })
const field = (of: Family<string>): GrowingRequest => line((bytes) => `a v=${of(bytes)} ${T}`)
const repeated =
  (item: string): Family<string> =>
  (bytes) =>
    filled(bytes, item)
const point = (member: Family<string>): GrowingRequest =>
  json('/api/v1/write', (bytes) => `[{"measurement":"j","tags":{},"timestamp":${T},"fields":{"v":1},${member(bytes)}}]`)
const value = (of: Family<string>): GrowingRequest =>
  json('/api/v1/write', (bytes) => `[{"measurement":"j","tags":{},"timestamp":${T},"fields":{"v":${of(bytes)}}}]`)

t.test('line protocol', async (t) => {
  const node = await growthNode(t, ['line_protocol'])
  await requestsGrow(t, node, {
    digits: field(repeated('1')),
    'digits of a fraction': field((bytes) => `0.${'1'.repeat(bytes)}`),
    'zeros of a fraction': field((bytes) => `0.${'0'.repeat(bytes)}1`),
    'digits of an exponent': field((bytes) => `1e${'1'.repeat(bytes)}`),
    'digits of an integer': field((bytes) => `${'1'.repeat(bytes)}i`),
    'digits of a decimal': field((bytes) => `${'1'.repeat(bytes)}d`),
    'points of a decimal': field((bytes) => `${'1.'.repeat(bytes / 2)}d`),
    'a long word': field(repeated('t')),
    'digits of a time': line((bytes) => `a v=1 ${'1'.repeat(bytes)}`),
    'zeros of a time': line((bytes) => `a v=1 ${'0'.repeat(bytes)}1`),
    'spaces before fields': line((bytes) => `a${' '.repeat(bytes)}v=1 ${T}`),
    'a long field name': line((bytes) => `a ${'f'.repeat(bytes)}=1 ${T}`),
    'escapes of a field name': line((bytes) => `a ${'\\='.repeat(bytes / 2)}=1 ${T}`),
    'many fields': line((bytes) => `a ${filled(bytes, (i) => `f${i}=1`, ',')} ${T}`),
    'a field again and again': line((bytes) => `a ${filled(bytes, 'v=1,')}v=1 ${T}`),
    'fields backwards': line((bytes) => filled(bytes, () => `b ${filled(4000, (i) => `f${(999 - i) % 1000}=1`, ',')} ${T}`, '\n')),
    'spellings of a field': line((bytes) =>
      filled(bytes, (i) => `c ${i.toString(2).padStart(20, '0').replaceAll('0', '\\a').replaceAll('1', '\\\\a')}=1 ${T}`, '\n'),
    ),
    'a long measurement': line((bytes) => `${'m'.repeat(bytes)} v=1`),
    'escapes of a measurement': line((bytes) => `${'\\ '.repeat(bytes / 2)} v=1`),
    'a long tag': line((bytes) => `a,t=${'t'.repeat(bytes)} v=1`),
    'many tags': line((bytes) => `a,${filled(bytes, (i) => `t${i}=1`, ',')} v=1`),
    'a tag again and again': line((bytes) => `a,${filled(bytes, 't=1,')}t=1 v=1`),
    'tags backwards': line((bytes) => filled(bytes, (i) => `a,${filled(300, (tag) => `t${99 - tag}=${i % 10}`, ',')} v=1 ${T}`, '\n')),
    'escapes of tags': line((bytes) => filled(bytes, (i) => `a,t=${'\\ '.repeat(100)}${i % 100} v=1 ${T}`, '\n')),
    'escapes of a text': line((bytes) => `a v="${'\\"'.repeat(bytes / 2)}"`),
    commas: line(repeated(',')),
    'no space': line(repeated('a')),
    backslashes: line(repeated('\\')),
    'backslashes in lines': line(repeated('\\\n')),
    'lines of a byte': line(repeated('a\n')),
    'lines of a quote': line(repeated('"\n')),
    'quotes that the next line closes': line(repeated('a v="\n')),
    'quotes behind quotes': line(repeated('a v="x" "\n')),
    'quotes in a line': line((bytes) => `a ${filled(bytes, 'v="')}`),
    'quotes that are escaped': line(repeated('a v="\\"\n')),
    'a quote that nothing closes behind others': line((bytes) => `${filled(bytes, 'a v=\\"\n')}a v="`),
    'a long text': line((bytes) => `a s="${'x'.repeat(bytes)}" ${T}`),
    'lines of a text': line((bytes) => `a s="${'\n'.repeat(bytes)}" ${T}`),
    comments: line(repeated('#\n')),
    'a comment': line(repeated('#')),
    'blank lines': line(repeated('\n')),
    returns: line(repeated('\r')),
    measurements: line((bytes) => filled(bytes, (i) => `m${i} v=1 ${T}`, '\n'), 100_000),
    'fields of lines': line((bytes) => filled(bytes, (i) => `d f${i}=1 ${T}`, '\n')),
    'types of lines': line((bytes) => filled(bytes, (i) => `e v=${['1', '1i', '1u', 't', '"a"', '1d'][i % 6]} ${T}`, '\n')),
  })
})

t.test('JSON', async (t) => {
  const node = await growthNode(t, ['native'])
  await requestsGrow(t, node, {
    digits: value(repeated('1')),
    'digits of a fraction': value((bytes) => `0.${'1'.repeat(bytes)}`),
    'zeros behind a one': value((bytes) => filled(bytes, (i) => `1${'0'.repeat(300)}1,"f${i}":1`, '')),
    'digits of a decimal': value((bytes) => `{"decimal":"${'1'.repeat(bytes)}"}`),
    'digits of what is no decimal': value((bytes) => `{"decimal":"${'1'.repeat(bytes)}x"}`),
    'points of what is no decimal': value((bytes) => `{"decimal":"${'1.'.repeat(bytes / 2)}"}`),
    nesting: value((bytes) => '['.repeat(bytes)),
    'a long text': value((bytes) => `"${'x'.repeat(bytes)}"`),
    escapes: value((bytes) => `"${'\\u00e4'.repeat(bytes / 6)}"`),
    'halves of characters': value((bytes) => `"${'\\ud83d'.repeat(bytes / 6)}"`),
    'bad escapes': value((bytes) => `"${'\\n'.repeat(bytes / 2)}\\x"`),
    'a member again and again': point((bytes) => filled(bytes, '"tags":{},').slice(0, -1)),
    'members that nobody knows': point((bytes) => filled(bytes, (i) => `"k${i}":[{}]`, ',')),
    'deep members that nobody knows': point((bytes) => `"k":${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}`),
    'a tag again and again': point((bytes) => `"tags":{${filled(bytes, '"t":"v",')}"t":"v"}`),
    'names of objects': point((bytes) => `"fields":{${filled(bytes, '"__proto__":1,"constructor":2,')}"toString":1}`),
    spaces: point((bytes) => `${' '.repeat(bytes)}"x":1`),
    'a long member': point((bytes) => `"${'m'.repeat(bytes)}":1`),
    points: json('/api/v1/write', (bytes) => `[${'{},'.repeat(bytes / 3)}{}]`),
    'a plan of fields': json('/api/v1/svc/query', (bytes) => `{"measurement":"j","fields":[${filled(bytes, (i) => `"f${i}"`, ',')}]}`, 1_000_000),
    'a plan of conditions': json(
      '/api/v1/svc/query',
      (bytes) => `{"measurement":"j","filters":[${filled(bytes, '{"tag":"a","op":"=~","value":"(a*|b*|)*x"},')}{}]}`,
      1_000_000,
    ),
    'a delete of tags': json('/api/v1/delete', (bytes) => `{"measurement":"j","tags":{${filled(bytes, (i) => `"t${i}":"v"`, ',')}}}`, 1_000_000),
  })
})

t.test('what clients of InfluxDB ask', async (t) => {
  const node = await growthNode(t, ['line_protocol'])
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const statement = (body: Family<string>): GrowingRequest => ({ url: '/query', headers: form, bytes: 900_000, body: (bytes) => `q=${body(bytes)}` })
  const predicate = (body: Family<string>): GrowingRequest =>
    json('/api/v2/delete?bucket=a', (bytes) => JSON.stringify({ start: '1970-01-01T00:00:00Z', stop: '2100-01-01T00:00:00Z', predicate: body(bytes) }), 65_000)
  await requestsGrow(t, node, {
    'blanks behind a statement': statement((bytes) => `show databases${'+'.repeat(bytes)}x`),
    'blanks in a statement': statement((bytes) => `show${'+'.repeat(bytes)}x`),
    'blanks before a name': statement((bytes) => `create database${'+'.repeat(bytes)}`),
    'a quoted name': statement((bytes) => `create database "${'a'.repeat(bytes)}`),
    'escapes of a quoted name': statement((bytes) => `create database "${'\\"'.repeat(bytes / 2)}`),
    'a name': statement((bytes) => `create database ${'a'.repeat(bytes)}`),
    'blanks of a predicate': predicate((bytes) => `a="b"${' '.repeat(bytes)}x`),
    'a quote of a predicate': predicate((bytes) => `a="${'\\"'.repeat(bytes / 2)}`),
    'comparisons of a predicate': predicate((bytes) => filled(bytes, 'a="b" AND ')),
    'parentheses of a predicate': predicate((bytes) => '('.repeat(bytes)),
  })
})
