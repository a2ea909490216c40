import t from 'tap'
import { BoundedMap } from './bounded-map.ts'
import { fuzz } from './commands.fuzz.ts'
import { readCommand, writeAny } from './commands.ts'
import { likeMatcher } from './like.ts'
import { readFlightData, wrapBytes, writeFlightData } from './messages.ts'
import { isMeasurement, measurementOf } from './target.ts'

t.test('messages of another encoder, whole and corrupted', async (t) => {
  t.ok(fuzz(1, (messages) => messages < 1000) >= 1000)
})

t.test('a byte order mark is a character of a name like any other', async (t) => {
  const query = '\uFEFFcpu'
  t.strictSame(readCommand(writeAny('CommandStatementUpdate', wrapBytes(Buffer.from(query)))), { kind: 'update', query })
})

t.test('what every object has is no command', async (t) => {
  for (const name of ['', 'constructor', '__proto__', 'hasOwnProperty', 'valueOf', '__defineGetter__'])
    t.throws(() => readCommand(writeAny(name, new Uint8Array(0))), { code: 'BAD_REQUEST', message: /it is none of Flight SQL/ }, name)
})

t.test('SQL and names in place of a command are told what to send', async (t) => {
  for (const text of ['SELECT 1', 'select * from cpu', 'WITH a AS (SELECT 1) FROM a', 'SHOW TABLES', 'cpu', 'DESCRIBE cpu', 'jobs', ''])
    t.throws(
      () => readCommand(Buffer.from(text)),
      { code: 'BAD_REQUEST', message: /a client of Flight SQL, such as ADBC; .*\{"sql_query": "SELECT 1"\}/ },
      text,
    )
  const broken = writeAny('CommandStatementQuery', Buffer.from([0x0a, 0x7f]))
  t.throws(() => readCommand(broken), { message: /longer than the message/ }, 'what is broken within a command is named')
})

t.test('FlightData of every size', async (t) => {
  for (const header of [0, 1, 127, 128, 20_000]) {
    for (const body of [0, 1, 127, 128, 16_384, 3_000_000]) {
      const message = writeFlightData(new Uint8Array(header).fill(7), new Uint8Array(body).fill(9))
      t.equal(message.byteLength, message.buffer.byteLength)
      const read = readFlightData(message)
      t.same([read.header.length, read.body.length], [header, body])
      t.ok(read.header.every((byte) => byte === 7) && read.body.every((byte) => byte === 9))
    }
  }
})

t.test('LIKE patterns', async (t) => {
  for (const [pattern, yes, no] of [
    ['%', ['', 'a', 'a\nb'], []],
    ['', [''], ['a']],
    ['_', ['a', '漢', '💧'], ['', 'ab']],
    ['a%', ['a', 'abc'], ['b', 'A']],
    ['%a', ['a', 'bba'], ['ab']],
    ['%ab%ab%', ['abab', 'xabyabz', 'aabab'], ['ab', 'aba']],
    ['a_c%d', ['abcd', 'axcyyd'], ['acd', 'abcde']],
    ['a\\_b\\%', ['a_b%'], ['axb%', 'a_b']],
    ['a\\\\b', ['a\\b'], ['ab']],
    ['a\\', ['a\\'], ['a']],
    ['.*[a', ['.*[a'], ['xx[a']],
  ] as const) {
    const matches = likeMatcher(pattern)
    for (const text of yes) t.ok(matches(text), `${pattern} matches ${text}`)
    for (const text of no) t.notOk(matches(text), `${pattern} does not match ${text}`)
  }
  t.notOk(likeMatcher('%a'.repeat(500))(`${'a'.repeat(20_000)}b`), 'time grows with pattern times text: else this would not end')
})

t.test('names of measurements and SQL are told apart', async (t) => {
  for (const [text, name] of [
    ['cpu', 'cpu'],
    ['  cpu ', 'cpu'],
    ['"a ""b"""', 'a "b"'],
    ['two words', 'two words'],
    ['"select 1"', 'select 1'],
  ] as const) {
    t.equal(measurementOf(text), name)
  }
  for (const text of ['INSERT INTO cpu VALUES (1)', ' select 1', 'drop\ntable x']) t.throws(() => measurementOf(text), { code: 'SQL_ERROR' }, text)
  for (const text of ['cpu', ' cpu.load-1:x ', '"select 1"', '_m', 'größe']) t.ok(isMeasurement(text), text)
  for (const text of ['two words', 'COMMIT', 'select 1', '1', '', '""', 'show tables']) t.notOk(isMeasurement(text), text)
})

t.test('a bounded map forgets what was used longest ago', async (t) => {
  let now = 0
  const map = new BoundedMap<number>({ maxEntries: 3, maxWeight: 100, lifetimeMs: 10 }, () => now)
  const [a, b, c] = [map.add(1, 10), map.add(2, 10), map.add(3, 10)] as string[]
  t.equal(new Set([a, b, c]).size, 3)
  t.equal(map.get(a), 1)
  const d = map.add(4, 10) as string
  t.same([map.get(a), map.get(b), map.get(c), map.get(d)], [1, undefined, 3, 4])
  const heavy = map.add(5, 85) as string
  t.same([map.get(a), map.get(c), map.get(d), map.get(heavy)], [undefined, undefined, 4, 5], 'as many go as it needs')
  t.equal(map.add(6, 101), undefined)
  t.equal(map.get(d), 4)
  t.equal(map.put(d, 7, 101), false)
  t.equal(map.get(d), undefined, 'what does not fit takes the old value with it')
  now = 9
  t.equal(map.get(heavy), 5)
  now = 18
  t.equal(map.get(heavy), 5, 'its time began anew')
  now = 28
  t.equal(map.get(heavy), undefined)
  t.equal(map.size, 0)
  t.equal(map.delete(heavy), false)
})

t.end()
