import { DateDay, Dictionary, Float64, Int32, Int64, TimestampNanosecond, Utf8 } from 'apache-arrow'
import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { PATH } from './messages.ts'
import { command, descriptor, type FlightClient, field, message, startFlight } from './testing.ts'
import { type Column, flightStream, sharedColumns } from './testing-stream.ts'

const now = BigInt(Date.now()) * 1_000_000n

const points = (times: bigint[], hosts: (string | null)[], values: (number | null)[]): Column[] => [
  { name: '_time', type: new TimestampNanosecond(), values: times },
  { name: 'host', type: new Utf8(), values: hosts },
  { name: 'v', type: new Float64(), values },
]

const update = (name: string) => descriptor(command('CommandStatementUpdate', { 1: name }))
const put = (flight: FlightClient, messages: Uint8Array[]) => flight.put('DoPut', messages)
/** record_count of a DoPutUpdateResult. */
async function written(flight: FlightClient, messages: Uint8Array[]): Promise<number> {
  const answer = await put(flight, messages)
  if (answer.error !== undefined) throw answer.error
  t.equal(answer.messages.length, 1)
  const result = field(answer.messages[0], 1) as Uint8Array
  return result.length === 0 ? 0 : result[1]
}

t.test('bulk writes', async (t) => {
  const { flight, node } = await startFlight(t)
  const rows = async (query: string) => (await flight.sql(query)).rows

  t.test('an update names the measurement, and so do quotes and a path', async (t) => {
    t.equal(await written(flight, flightStream(update('m'), [points([now, now + 1n], ['a', 'b'], [1, 2]), points([now + 2n], [null], [3])])), 3)
    t.same(await rows('SELECT host, v FROM m ORDER BY v'), [
      { host: 'a', v: 1 },
      { host: 'b', v: 2 },
      { host: null, v: 3 },
    ])
    t.equal(await written(flight, flightStream(update(' "my ""own"" table" '), [points([now], ['a'], [1])])), 1)
    t.equal(await written(flight, flightStream(message({ 1: PATH, 3: 'a "path"' }), [points([now], ['a'], [1])])), 1)
    t.same(await rows('SHOW TABLES'), [{ name: 'a "path"' }, { name: 'm' }, { name: 'my "own" table' }])
    const metrics = (await node.inject('/metrics')).body
    t.match(metrics, /^svc_flight_sql_points_written_total 5$/m)
  })

  t.test('nothing at all, and rows without values', async (t) => {
    t.equal(await written(flight, flightStream(update('empty'), [points([], [], [])])), 0)
    t.equal(await written(flight, flightStream(update('empty'), [points([now], ['a'], [null])])), 0)
  })

  t.test('ingest with its table options', async (t) => {
    const ingest = (name: string, fields: Parameters<typeof command>[1], options?: [number, number]) =>
      put(
        flight,
        flightStream(descriptor(command('CommandStatementIngest', { ...(options && { 1: message({ 1: options[0], 2: options[1] }) }), 2: name, ...fields })), [
          points([now], ['a'], [1]),
        ]),
      )
    for (const [name, options, code] of [
      ['new', [2, 2], 5],
      ['new', [1, 1], undefined],
      ['new', [1, 1], 6],
      ['new', [2, 2], undefined],
      ['new', [1, 2], undefined],
      ['new', [1, 3], 3],
      ['new', [7, 2], 3],
      ['other', undefined, undefined],
    ] as const) {
      t.equal((await ingest(name, {}, options && [...options])).error?.code, code, `${name} ${options}`)
    }
    t.equal((await ingest('new', { 3: 'main', 4: 'svc' })).error, undefined)
    t.match((await ingest('new', { 3: 'public' })).error, { code: 5, details: /there is no schema "public"/ })
    t.match((await ingest('new', { 4: 'db' })).error, { code: 5, details: /there is no catalog "db"/ })
    t.match((await ingest('new', { 5: true })).error, { code: 3, details: /no temporary tables/ })
    t.match((await ingest('new', { 6: Buffer.from('tx') })).error, { code: 3, details: /no transactions/ })
    t.match((await ingest('new', { 1000: message({ 1: 'x', 2: 'y' }) })).error, { code: 3, details: /option "x" = "y" is unknown/ })
    t.equal((await ingest('new', { 1000: message({ 1: 'backfill', 2: 'true' }) })).error, undefined)
    t.match((await ingest('new', {}, [1, 3])).error?.details, /not replaced by an ingest; drop it first, or append/)
  })

  t.test('good rows are stored, others told with both counts', async (t) => {
    await written(flight, flightStream(update('window'), [points([now], ['a'], [1])]))
    const old = now - 100n * 3_600_000_000_000n
    const answer = await put(flight, flightStream(update('window'), [points([now + 1n, old], ['a', 'a'], [2, 3]), points([now + 2n], ['a'], [4])]))
    t.match(answer.error, { code: 3, details: /^partial write: 2 rows written, 1 rejected; first: row 2: .*backfill/ })
    t.equal(answer.error?.metadata.get('svc-code')[0], 'PARTIAL_WRITE')
    t.same(await rows('SELECT v FROM "window" ORDER BY v'), [{ v: 1 }, { v: 2 }, { v: 4 }])
    const conflict: Column[] = [
      { name: '_time', type: new TimestampNanosecond(), values: [now + 5n] },
      { name: 'v', type: new Int64(), values: [1n] },
    ]
    const other = await put(flight, flightStream(update('window'), [conflict]))
    t.match(other.error, { code: 3 })
    t.equal(other.error?.metadata.get('svc-code')[0], 'SCHEMA_ERROR')
  })

  t.test('backfill is decided by the first metadata, wherever it comes', async (t) => {
    const old = now - 200n * 3_600_000_000_000n
    for (const [i, metadata] of [
      ['{"backfill": true}'],
      [undefined, '{"backfill":true}'],
      [undefined, undefined, '{"backfill":true}', '{"backfill":false}'],
    ].entries()) {
      const name = `late${i}`
      await written(flight, flightStream(update(name), [points([now], ['a'], [0])]))
      const batches = [points([old], ['a'], [1]), points([old + 1n], ['a'], [2]), points([old + 2n], ['a'], [3])]
      t.equal(await written(flight, flightStream(update(name), batches, metadata)), 3, name)
      t.same(await rows(`SELECT count(*) AS n FROM ${name}`), [{ n: 4n }])
    }
    const refused = async (metadata: string) => (await put(flight, flightStream(update('late0'), [points([now], ['a'], [1])], [metadata]))).error
    t.match(await refused('{"backfil": true}'), { code: 3, details: /the key "backfil" is unknown/ })
    t.match(await refused('{"backfill": 1}'), { code: 3, details: /"backfill" is not true or false/ })
    t.match(await refused('yes'), { code: 3, details: /it is no JSON/ })
    t.match(await refused('[]'), { code: 3, details: /no JSON object/ })
    const live = await put(flight, flightStream(update('late0'), [points([old + 9n], ['a'], [1])], ['{"backfill": false}']))
    t.match(live.error, { code: 3, details: /backfill/ })
  })

  t.test('a late word of a backfill leaves the newest value of each point', async (t) => {
    const old = now - 200n * 3_600_000_000_000n
    for (const between of [0, 1, 40]) {
      const name = `order${between}`
      await written(flight, flightStream(update(name), [points([now], ['a'], [0])]))
      const batches = Array.from({ length: between + 2 }, (_, i) =>
        points(i === 0 ? [old, now] : [now], i === 0 ? ['a', 'a'] : ['a'], i === 0 ? [1, 1] : [i + 1]),
      )
      const metadata = [...batches.slice(1).map(() => undefined), '{"backfill":true}']
      t.equal(await written(flight, flightStream(update(name), batches, metadata)), between + 3)
      t.same(await rows(`SELECT v FROM ${name} ORDER BY _time`), [{ v: 1 }, { v: between + 2 }])
    }
  })

  t.test('refused rows of a long stream are counted, the first of them told', async (t) => {
    const old = now - 200n * 3_600_000_000_000n
    await written(flight, flightStream(update('long'), [points([now], ['a'], [0])]))
    const batches = Array.from({ length: 60 }, (_, i) => points([i === 0 ? now : old, now + BigInt(i + 1)], ['a', 'a'], [1, 1]))
    const failed = (metadata: (string | undefined)[]) => put(flight, flightStream(update('long'), batches, metadata)).then(({ error }) => error?.details)
    for (const metadata of [[], ['{"backfill":false}'], [...Array.from({ length: 30 }, () => undefined), '{"backfill":false}']])
      t.match(await failed(metadata), /61 rows written, 59 rejected; first: row 3: /)
    t.equal(await failed([...Array.from({ length: 30 }, () => undefined), '{"backfill":true}']), undefined)
  })

  t.test('what is no bulk write is refused', async (t) => {
    const stream = (to: Uint8Array) => put(flight, flightStream(to, [points([now], ['a'], [1])]))
    t.match((await stream(update('INSERT INTO m VALUES (1)'))).error, { code: 3, details: /SQL only reads here; to write, name the measurement/ })
    t.match((await stream(update(''))).error, { code: 3 })
    t.match((await stream(descriptor(command('CommandStatementQuery', { 1: 'select 1' })))).error, { code: 3, details: /cannot put a command of kind query/ })
    t.match((await stream(message({ 1: PATH }))).error, { code: 3, details: /no descriptor with a command/ })
    t.match((await put(flight, [])).error, { code: 3, details: /the stream is empty/ })
    t.match((await put(flight, [message({ 1: update('m') })])).error, { code: 3, details: /the stream has no schema/ })
    const corrupt = (details: RegExp) => ({ code: 3, details })
    const garbage = message({ 1: update('m'), 2: Buffer.from('garbage') })
    t.match(
      (await put(flight, [garbage])).error,
      corrupt(/header of message 1 is corrupt: a table lies at byte \d+ of 7 and is not wholly there; send it as Arrow/),
    )
    const dates: Column[] = [{ name: 'day', type: new DateDay(), values: [new Date(0)] }]
    t.match((await put(flight, flightStream(update('m'), [dates]))).error, { code: 3, details: /cannot write column "day"/ })
    const [schema, batch] = flightStream(update('m'), [points([now], ['a'], [1])])
    t.match((await put(flight, [schema, message({ 2: field(batch, 2) as Uint8Array, 1000: Buffer.alloc(3) })])).error, { code: 3 })
    // Whatever is changed or cut off of a header: the refusal says which message, and has no words of the JavaScript engine.
    const header = Buffer.from(field(batch, 2) as Uint8Array)
    for (let i = 0; i < header.length; i += 3) {
      const changed = Buffer.from(header)
      changed[i] = 0x7f
      for (const bytes of [changed, header.subarray(0, i)]) {
        const { error } = await put(flight, [schema, message({ 2: bytes, 1000: field(batch, 1000) as Uint8Array })])
        if (error === undefined) continue
        t.notMatch(error.details, /DataView|Offset is|undefined|Invalid/, `byte ${i}`)
        if (error.details.includes('header of message')) t.match(error.details, /of message 2 is corrupt: .*; send it as Arrow/)
      }
    }
  })
})

t.test('a schema has no more columns than a point may have', async (t) => {
  const { flight } = await startFlight(t, { section: { max_fields_per_point: 2 } })
  const columns = (to: Uint8Array, count: number) => put(flight, [message({ 1: to, 2: sharedColumns(count) })])
  const bound = descriptor(command('CommandPreparedStatementQuery', { 1: 'any' }))
  for (const to of [update('m'), bound]) {
    t.match((await columns(to, 1028)).error, { code: 3, details: /it has more than 1027 columns/ })
    t.match((await columns(to, 200_000)).error, { code: 3, details: /more parts than are allowed/ })
    t.match((await columns(to, 1_000_000)).error, { code: 3, details: /the header of a message has 4000\d{3} bytes/ })
  }
  t.match((await columns(update('m'), 2)).error, { code: 3, details: /there are two columns of the name/ }, 'what the message says is a schema')
})

t.test('what puts keep while their clients are silent is bounded for all of them together', async (t) => {
  const section = { max_buffered_bytes: 4_000_000, max_receive_bytes: 2_000_000, max_send_bytes: 2_000_000 }
  // Puts that stay open are cut by then.
  const { flight, node } = await startFlight(t, { section, config: { server: { shutdown_timeout_secs: 1 } } })
  await written(flight, flightStream(update('m'), [points([now], ['a'], [1])]))
  const long = (length: number): Column => ({ name: 'host', type: new Dictionary(new Utf8(), new Int32()), values: ['x'.repeat(length)] })
  const dictionary = (to: Uint8Array) => flightStream(to, [[long(1_500_000)]]).slice(0, 2)
  const field: Column = { name: 'note', type: new Utf8(), values: ['x'.repeat(1_500_000)], role: 'field' }
  const old: Column = { name: '_time', type: new TimestampNanosecond(), values: [now - 200n * 3_600_000_000_000n] }
  const bound = descriptor(command('CommandPreparedStatementQuery', { 1: 'any' }))
  for (const [name, stream] of [
    ['dictionaries of values', dictionary(bound)],
    ['dictionaries of points', flightStream(update('m'), [[long(1_500_000), { name: 'v', type: new Float64(), values: [1] }]]).slice(0, 2)],
    ['rows that may be a backfill', flightStream(update('m'), [[old, field]])],
  ] as const) {
    const answers = Array.from({ length: 4 }, () => flight.put('DoPut', stream, {}, true))
    const { error } = await Promise.race(answers)
    t.match(error, { code: 14, details: /flight_sql\.max_buffered_bytes/ }, name)
    t.equal(error?.metadata.get('svc-code')[0], 'BACKPRESSURE')
  }
  t.match((await flight.sql('SELECT v FROM m')).rows, [{ v: 1 }])
  t.match((await node.inject('/metrics')).body, /^svc_flight_sql_buffered_bytes [1-3]\d{6}$/m)
})

t.test('a put waits for room, and the order of its batches stays', async (t) => {
  let refusing = 0
  const full = definePlugin({
    id: 'full',
    summary: 'Has no room at first',
    stability: 'stable',
    capabilities: ['points'],
    setup(svc) {
      svc.ingest.admit(() => {
        if (refusing-- > 0) throw new SvcError('BACKPRESSURE', 'flushing is behind')
      })
    },
  })
  const { flight } = await startFlight(t, { others: [full], section: { backpressure_wait_secs: 1 } })
  const stream = (table: string) =>
    flightStream(
      update(table),
      [1, 2, 3, 4, 5, 6].map((v) => points([now], ['a'], [v])),
    )
  for (const refusals of [1, 2, 5]) {
    refusing = refusals
    t.equal(await written(flight, stream(`m${refusals}`)), 6)
    t.same((await flight.sql(`SELECT v FROM m${refusals}`)).rows, [{ v: 6 }], `the last one counts after ${refusals} refusals`)
  }
  refusing = 1e9
  t.match((await put(flight, stream('m1'))).error, { code: 14, details: /flushing is behind/ })
})

t.test('a word of a backfill that comes while a batch is being written leaves its value as well', async (t) => {
  let calls = Number.POSITIVE_INFINITY
  const wait = async (ms: number, ended = () => false) => {
    for (let i = 0; i < ms / 2 && !ended(); i++) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  /** By the number of the write: the second is under way until the fifth comes, which is of the same batch, ends behind the fourth and finds no room. */
  const held: Record<number, () => Promise<void>> = {
    2: () => wait(200, () => calls >= 5),
    3: () => wait(200, () => calls >= 4),
    4: () => wait(200, () => calls >= 5).then(() => wait(100)),
    5: () =>
      wait(200).then(() => {
        throw new SvcError('BACKPRESSURE', 'flushing is behind')
      }),
  }
  const slow = definePlugin({
    id: 'slow',
    summary: 'Has some writes wait for others',
    stability: 'stable',
    capabilities: ['points'],
    setup: (svc) => svc.ingest.admit(() => held[++calls]?.()),
  })
  const { flight } = await startFlight(t, { others: [slow], section: { max_batches_in_flight: 3 } })
  await written(flight, flightStream(update('m'), [points([now], ['a'], [0])]))
  const old = now - 200n * 3_600_000_000_000n
  const batches = [points([old, now], ['a', 'a'], [1, 1]), ...[0n, 1n, 2n].map((i) => points([now + i], ['a'], [Number(i) + 2]))]
  calls = 0
  t.equal(await written(flight, flightStream(update('m'), batches, [undefined, undefined, undefined, undefined, '{"backfill":true}'])), 5)
  t.same((await flight.sql('SELECT v FROM m ORDER BY _time')).rows, [{ v: 1 }, { v: 2 }, { v: 3 }, { v: 4 }])
})

t.test('many batches are held to the writes allowed at a time', async (t) => {
  const { flight } = await startFlight(t, { section: { max_batches_in_flight: 2 } })
  const batches = Array.from({ length: 40 }, (_, i) => points([now + BigInt(i)], ['a'], [i]))
  t.equal(await written(flight, flightStream(update('m'), batches)), 40)
  t.same((await flight.sql('SELECT count(*) AS n, sum(v) AS s FROM m')).rows, [{ n: 40n, s: 780 }])
})

t.end()
