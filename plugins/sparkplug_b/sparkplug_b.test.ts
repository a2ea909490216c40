import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce, type Work } from 'svcdb/lib/event-loop'
import { Message, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { encode, host, NOW, type SentMetric } from './testing.ts'
import { readTopic } from './topic.ts'

const NODE = 'spBv1.0/plant/NBIRTH/edge'
const metric = (name: string, type: string, value: unknown, more: Partial<SentMetric> = {}): SentMetric => ({ name, type, value, timestamp: NOW, ...more })
const nbirth = (metrics: SentMetric[] = [], { bdSeq = 0, seq = 0, timestamp = NOW } = {}) => ({
  timestamp,
  seq,
  metrics: [metric('bdSeq', 'UInt64', bdSeq), metric('Node Control/Rebirth', 'Boolean', false), ...metrics],
})
const ms = (time: number): bigint => BigInt(time) * 1_000_000n

t.test('births name metrics, data has aliases, deaths end both', async (t) => {
  const { take, asked } = host()
  t.same(take(NODE, nbirth([metric('load', 'Double', 0.5, { alias: 1 }), metric('Properties/OS', 'String', 'Linux', { alias: 2 })], { bdSeq: 7 })).points, [
    {
      measurement: 'edge',
      tags: { group_id: 'plant', edge_node_id: 'edge' },
      time: ms(NOW),
      fields: { load: 0.5, 'Properties/OS': 'Linux' },
    },
    { measurement: 'state', tags: { group_id: 'plant', edge_node_id: 'edge' }, time: ms(NOW), fields: { online: true, bd_seq: 7n } },
  ])
  const device = { group_id: 'plant', edge_node_id: 'edge', device_id: 'press' }
  t.same(
    take('spBv1.0/plant/DBIRTH/edge/press', { timestamp: NOW + 1, seq: 1, metrics: [metric('count', 'Int32', -3, { alias: 3, timestamp: NOW + 1 })] }).points,
    [
      { measurement: 'press', tags: device, time: ms(NOW + 1), fields: { count: -3n } },
      { measurement: 'state', tags: device, time: ms(NOW + 1), fields: { online: true, bd_seq: 7n } },
    ],
  )
  t.same(take('spBv1.0/plant/NDATA/edge', { timestamp: NOW + 2, seq: 2, metrics: [{ alias: 1, value: 0.75, type: 'Double' }] }).points, [
    { measurement: 'edge', tags: { group_id: 'plant', edge_node_id: 'edge' }, time: ms(NOW + 2), fields: { load: 0.75 } },
  ])
  // As the specification wants it: alias and value, without a type.
  const bare = new Message()
    .int(1, NOW + 3)
    .int(3, 3)
    .put(
      2,
      new Message()
        .int(2, 3)
        .int(3, NOW + 3)
        .int(10, 4294967292n)
        .done(),
    )
    .done()
  t.same(take('spBv1.0/plant/DDATA/edge/press', bare).points, [{ measurement: 'press', tags: device, time: ms(NOW + 3), fields: { count: -4n } }])
  t.same(take('spBv1.0/plant/DDEATH/edge/press', { timestamp: NOW + 4, seq: 4 }).points, [
    { measurement: 'state', tags: device, time: ms(NOW + 4), fields: { online: false, bd_seq: 7n } },
  ])
  t.same(asked, [])
})

t.test('the death of an edge node is that of its devices, at the time it comes, and only of its session', async (t) => {
  const { take } = host()
  take(NODE, nbirth([metric('a', 'Int8', 1, { alias: 1 })], { bdSeq: 2 }))
  for (const device of ['d1', 'd2']) take(`spBv1.0/plant/DBIRTH/edge/${device}`, { timestamp: NOW, seq: device === 'd1' ? 1 : 2, metrics: [] })
  const death = (bdSeq: number) => ({ timestamp: NOW - 1000, metrics: [metric('bdSeq', 'UInt64', bdSeq)] })
  t.same(take('spBv1.0/plant/NDEATH/edge', death(1)).points, [], 'a will of the session before')
  const { points } = take('spBv1.0/plant/NDEATH/edge', death(2))
  t.same(
    points.map(({ measurement, tags, time, fields }) => [measurement, tags.device_id, time, fields]),
    [undefined, 'd1', 'd2'].map((device) => ['state', device, ms(NOW) + 5n, { online: false, bd_seq: 2n }]),
  )
  const late = take('spBv1.0/plant/NDATA/edge', { timestamp: NOW, seq: 3, metrics: [{ alias: 1, value: 1, type: 'Int8' }] })
  t.match(late, { points: [], error: { message: /no birth has said what alias 1 is/ } })
})

t.test('a death of another session is believed where its birth may have been missed', async (t) => {
  const { take, sessions, asked } = host()
  take(NODE, nbirth([metric('a', 'Int8', 1, { alias: 1 })], { bdSeq: 3 }))
  take('spBv1.0/plant/DBIRTH/edge/d1', { timestamp: NOW, seq: 1, metrics: [] })
  const death = () => take('spBv1.0/plant/NDEATH/edge', { timestamp: NOW, metrics: [metric('bdSeq', 'UInt64', 4)] }).points
  t.same(death(), [], 'a connection that holds has brought the last birth')
  sessions.interrupted()
  t.same(
    death().map(({ tags, fields }) => [tags.device_id, fields]),
    [undefined, 'd1'].map((device) => [device, { online: false, bd_seq: 4n }]),
  )
  // If it was the death of an earlier one, what comes next says so.
  take('spBv1.0/plant/NDATA/edge', { timestamp: NOW, seq: 2, metrics: [{ alias: 1, value: 1, type: 'Int8' }] })
  t.same(asked, ['plant/edge'])
})

t.test('a payload that is compressed is refused, and is no birth without metrics', async (t) => {
  const { take } = host()
  take(NODE, nbirth([metric('a', 'Int8', 1, { alias: 1 })]))
  const algorithm = new Message().put(1, 'algorithm').put(15, 'GZIP').done()
  const compressed = new Message()
    .int(1, NOW)
    .int(3, 1)
    .put(2, algorithm)
    .put(4, 'SPBV1.0_COMPRESSED')
    .put(5, Buffer.from([1, 2, 3]))
    .done()
  for (const topic of ['spBv1.0/plant/NDATA/edge', NODE]) t.throws(() => take(topic, compressed), /compressed .*send without compression/)
  const next = take('spBv1.0/plant/NDATA/edge', { timestamp: NOW, seq: 1, metrics: [{ alias: 1, value: 2, type: 'Int8' }] })
  t.match(next, { points: [{ fields: { a: 2n } }], error: undefined }, 'the birth before it holds')
})

t.test('every type: exactly, or refused by its name', async (t) => {
  const { take, decoder } = host()
  const cases: [string, unknown, unknown][] = [
    ['Int8', -128, -128n],
    ['Int16', -32768, -32768n],
    ['Int32', -2147483648, -2147483648n],
    ['Int64', -(2 ** 53), BigInt(-(2 ** 53))],
    ['UInt8', 255, 255n],
    ['UInt16', 65535, 65535n],
    ['UInt32', 4294967295, 4294967295n],
    ['UInt64', 2 ** 63, 2n ** 63n],
    ['Float', 0.1, Math.fround(0.1)],
    ['Double', 0.1, 0.1],
    ['Boolean', true, true],
    ['Boolean', false, false],
    ['String', 'é漢', 'é漢'],
    ['DateTime', NOW, BigInt(NOW)],
    ['Text', '', ''],
    ['UUID', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '6ba7b810-9dad-11d1-80b4-00c04fd430c8'],
  ]
  for (const [i, [type, value, expected]] of cases.entries()) {
    const { points, error } = take('spBv1.0/g/NDATA/n', { timestamp: NOW, metrics: [metric(`m${i}`, type, value)] })
    t.equal(error, undefined)
    t.same(points[0]?.fields, { [`m${i}`]: expected }, type)
  }
  const { points, error } = take('spBv1.0/g/DBIRTH/n/d', {
    timestamp: NOW,
    metrics: [
      metric('bytes', 'Bytes', Buffer.from('b')),
      metric('file', 'File', Buffer.from('f')),
      metric('table', 'DataSet', { numOfColumns: 1, columns: ['c'], types: ['Int64'], rows: [[1]] }),
      metric('good', 'Double', 1),
    ],
  })
  t.equal(error, undefined, 'they do not make a dead letter of each message')
  t.same(points[0].fields, { good: 1 })
  t.same(decoder.unsupported, ['bytes (Bytes)', 'file (File)', 'table (DataSet)'])
  t.equal(decoder.counts.unsupported, 3)
})

t.test('negative integers, in whatever width a sender writes them', async (t) => {
  const { take } = host()
  for (const [type, bits] of [
    [1, 0xefn],
    [1, 0xffffffefn],
    [1, 0xffffffffffffffefn],
    [2, 0xffefn],
    [3, 0xffffffefn],
    [4, 0xffffffffffffffefn],
  ] as const) {
    const value = new Message()
      .put(1, 'm')
      .int(3, NOW)
      .int(4, type)
      .int(type === 4 ? 11 : 10, bits)
      .done()
    t.same(take('spBv1.0/g/NDATA/n', new Message().put(2, value).done()).points[0].fields, { m: -17n })
  }
})

t.test('templates become fields of their own, with types of the birth', async (t) => {
  const { take } = host()
  const instance = (metrics: SentMetric[], isDefinition = false) => ({
    isDefinition,
    ...(isDefinition ? {} : { templateRef: 'Motor' }),
    metrics,
    parameters: [],
  })
  const birth = take(
    NODE,
    nbirth([
      metric('Motor', 'Template', instance([metric('rpm', 'Int32', 0)], true)),
      metric('m1', 'Template', instance([metric('rpm', 'Int32', 100), metric('inner', 'Template', instance([metric('on', 'Boolean', true)]))]), { alias: 4 }),
    ]),
  )
  t.same(birth.points[0].fields, { 'm1/rpm': 100n, 'm1/inner/on': true })
  const member = new Message().put(1, 'rpm').int(10, 4294967295n).done()
  const data = new Message()
    .int(1, NOW)
    .int(3, 1)
    .put(2, new Message().int(2, 4).put(18, new Message().put(2, member).done()).done())
    .done()
  t.same(take('spBv1.0/plant/NDATA/edge', data).points[0].fields, { 'm1/rpm': -1n })
  let deep = new Message().put(1, 'leaf').int(10, 1).done()
  for (let i = 0; i < 50; i++) deep = new Message().put(1, 't').put(18, new Message().put(2, deep).done()).done()
  t.match(take('spBv1.0/plant/NDATA/edge', new Message().put(2, deep).done()).error, { message: /nested more than 8 deep/ })
})

t.test('times of metrics make points of their own; those without any have that of the message, or of its arrival', async (t) => {
  const { take } = host()
  const { points } = take('spBv1.0/g/NDATA/n', {
    timestamp: NOW,
    metrics: [
      metric('a', 'Int8', 1, { timestamp: NOW - 60_000, isHistorical: true }),
      metric('b', 'Int8', 2, { timestamp: NOW - 60_000 }),
      { name: 'c', type: 'Int8', value: 3 },
    ],
  })
  t.same(
    points.map(({ time, fields }) => [time, fields]),
    [
      [ms(NOW - 60_000), { a: 1n, b: 2n }],
      [ms(NOW), { c: 3n }],
    ],
  )
  const untimed = new Message().put(2, new Message().put(1, 'x').int(4, 1).int(10, 1).done()).done()
  t.same(take('spBv1.0/g/NDATA/n', untimed).points[0].time, ms(NOW) + 5n)
  t.match(
    take(
      'spBv1.0/g/NDATA/n',
      new Message()
        .put(
          2,
          new Message()
            .put(1, 'x')
            .int(3, 2n ** 60n)
            .int(4, 1)
            .int(10, 1)
            .done(),
        )
        .done(),
    ),
    {
      points: [],
      error: { message: /beyond the range/ },
    },
  )
})

t.test('what is null, transient, of bad quality or no number is left out and counted', async (t) => {
  const { take, decoder } = host()
  const { points, error } = take('spBv1.0/g/NDATA/n', {
    timestamp: NOW,
    metrics: [
      metric('null', 'Int8', null, { isNull: true }),
      metric('transient', 'Int8', 1, { isTransient: true }),
      metric('bad', 'Int8', 1, { properties: { Quality: { type: 'Int32', value: 0 } } }),
      metric('fine', 'Int8', 1, { properties: { unit: { type: 'String', value: 'C' }, Quality: { type: 'Int32', value: 192 } } }),
      metric('nan', 'Double', Number.NaN),
    ],
  })
  t.equal(error, undefined)
  t.same(
    points.map(({ fields }) => fields),
    [{ fine: 1n }],
  )
  t.match(decoder.counts, { stored: 1, null: 1, transient: 1, bad_quality: 1, not_finite: 1 })
})

t.test('a field keeps its type: other types fit exactly, or are refused by name while the rest is stored', async (t) => {
  const { take, resolver } = host()
  const ref = resolver.measurement('', 'press')
  ref.fields.set('f', { name: 'f', type: 'float64' })
  ref.fields.set('i', { name: 'i', type: 'int64' })
  ref.fields.set('s', { name: 's', type: 'string' })
  const send = (...metrics: SentMetric[]) => take('spBv1.0/g/DDATA/n/press', { timestamp: NOW, metrics })
  t.same(send(metric('f', 'Int32', 7), metric('i', 'Double', 8)).points[0].fields, { f: 7, i: 8n })
  t.same(send(metric('f', 'Int32', -7), metric('i', 'Double', -8)).points[0].fields, { f: -7, i: -8n })
  const { points, error } = send(metric('i', 'Double', 8.5), metric('s', 'Boolean', true), metric('f', 'Int64', 2 ** 53 + 2), metric('ok', 'Double', 1))
  t.same(points[0].fields, { ok: 1 })
  t.match(error, { code: 'PARTIAL_WRITE', message: /3 metrics of the message could not be stored; first: cannot write field "i" of measurement "press"/ })
  t.match(send(metric('_time', 'Int8', 1)), { points: [], error: { message: /"_time" can be no name of a field/ } })
  const wrong = new Message().put(2, new Message().put(1, 'w').int(4, 1).put(15, 'text').done()).done()
  t.match(take('spBv1.0/g/DDATA/n/press', wrong), { points: [], error: { message: /"w" is Int8, and what was sent is none/ } })
})

t.test('a device of more metrics than a measurement may have fields keeps those that there is room for', async (t) => {
  const { take, resolver, decoder } = host()
  const many = (from: number, count: number) => Array.from({ length: count }, (_, i) => metric(`m${from + i}`, 'Int32', from + i))
  const { points, error } = take('spBv1.0/g/DBIRTH/n/d', { timestamp: NOW, metrics: many(0, 1100) })
  t.equal(Object.keys(points[0].fields).length, 1024)
  t.match(error, {
    code: 'PARTIAL_WRITE',
    message: /^76 metrics of the message could not be stored; first: "m1024" would be one field too many: sparkplug_b\.max_fields is 1024/,
  })
  t.equal(decoder.counts.refused, 76)
  const ref = resolver.measurement('', 'd')
  for (let i = 0; i < 1024; i++) ref.fields.set(`m${i}`, { name: `m${i}`, type: 'int64' })
  t.match(take('spBv1.0/g/DDATA/n/d', { timestamp: NOW, metrics: many(1023, 2) }), {
    points: [{ fields: { m1023: 1023n } }],
    error: { message: /^1 metric of the message could not be stored; first: "m1024"/ },
  })
})

t.test('a name or a text that is too long is refused by name, and the rest of the message is stored', async (t) => {
  const { take } = host()
  const birth = (metrics: SentMetric[]) => take('spBv1.0/g/DBIRTH/n/d', { timestamp: NOW, metrics: [metric('good', 'Int32', 1), ...metrics] })
  for (const name of ['n'.repeat(257), 'é'.repeat(129)]) {
    const { points, error } = birth([metric(name, 'Int32', 2)])
    t.same(points[0].fields, { good: 1n })
    t.match(error, { code: 'PARTIAL_WRITE', message: /takes 25[78] bytes of UTF-8: sparkplug_b\.max_name_bytes is 256/ })
  }
  const { points, error } = birth([metric('text', 'String', 'x'.repeat(65_537))])
  t.same(points[0].fields, { good: 1n })
  t.match(error, { message: /the text of "text" takes 65537 bytes of UTF-8: sparkplug_b\.max_string_bytes is 65536/ })
  const longest = { ['é'.repeat(128)]: 'x'.repeat(65_536) }
  const [[name, text]] = Object.entries(longest)
  t.match(birth([metric(name, 'String', text)]), { points: [{ fields: longest }], error: undefined })
})

t.test('missed births are asked for, and a value is never stored under a guess', async (t) => {
  const made = host()
  const { take, asked, sessions } = made
  const data = (seq: number, alias = 1, more = {}) =>
    take('spBv1.0/plant/NDATA/edge', { timestamp: NOW + seq, seq, metrics: [{ alias, value: seq, type: 'Double' }] }, more)
  t.match(data(5), { points: [], error: { code: 'PARTIAL_WRITE', message: /no birth has said what alias 1 is/ } })
  t.same(asked.splice(0), ['plant/edge'])
  take(NODE, nbirth([metric('a', 'Double', 0, { alias: 1 })]))
  t.same(data(1).points[0].fields, { a: 1 })
  t.same(data(3).points[0].fields, { a: 3 }, 'a message that is missed on a connection that holds is no birth')
  t.equal(made.gaps, 1)
  t.same(asked.splice(0), ['plant/edge'])
  for (let seq = 4; seq < 256; seq++) data(seq)
  t.same(data(0).points[0].fields, { a: 0 }, 'numbers begin again after 255')
  t.same(asked.splice(0), [])

  sessions.interrupted()
  t.same(data(1).points[0].fields, { a: 1 }, 'the next number: nothing was missed')
  sessions.interrupted()
  t.match(data(9), { points: [], error: { message: /no birth has said/ } }, 'a birth may have been missed')
  t.ok(asked.splice(0).includes('plant/edge'))
  take(NODE, nbirth([metric('b', 'Double', 0, { alias: 1 })]))
  t.same(data(1).points[0].fields, { b: 1 })
})

t.test('a message that comes again is no gap, and is not read with a birth that came after it', async (t) => {
  const made = host()
  const { take, sessions, asked } = made
  const data = (seq: number, redelivered: boolean, at = NOW + seq) =>
    take('spBv1.0/plant/NDATA/edge', { timestamp: at, seq, metrics: [{ alias: 1, value: seq, type: 'Double' }] }, { redelivered })
  take(NODE, nbirth([metric('old', 'Double', 0, { alias: 1 })]))
  for (let seq = 1; seq < 6; seq++) data(seq, false)
  sessions.interrupted()
  for (let seq = 3; seq < 6; seq++) t.same(data(seq, true).points[0].fields, { old: seq })
  t.same(data(6, false).points[0].fields, { old: 6 })
  t.equal(made.gaps, 0)
  take(NODE, nbirth([metric('new', 'Double', 0, { alias: 1 })], { timestamp: NOW + 100 }))
  t.same(data(6, true, NOW + 6).points, [])
  t.same(data(1, true, NOW + 101).points[0].fields, { new: 1 })
  t.ok(asked.length > 0)
})

t.test('a message that is read late is read with what held when it came', async (t) => {
  const { sessions, take, decoder, resolver } = host()
  take(NODE, nbirth([metric('old', 'Double', 0, { alias: 1 })]))
  const body = encode({ timestamp: NOW, seq: 1, metrics: [{ alias: 1, value: 1, type: 'Double' }] })
  const session = atOnce(sessions.arrived('spBv1.0/plant/NDATA/edge', body, false))
  take(NODE, nbirth([metric('new', 'Double', 0, { alias: 1 })]))
  for (const _ of ['once', 'and again']) {
    const batch = new WriteBatch(resolver)
    atOnce(decoder.decode({ body, session: session as never, time: 1n, measurement: undefined, tags: [] }, batch))
    t.same(pointsOf(batch, resolver)[0].fields, { old: 1 })
  }
})

t.test('what is known is bounded: the edge nodes that were silent longest are forgotten', async (t) => {
  const { take, sessions } = host(100)
  const birth = (i: number, metrics = 8) =>
    take(`spBv1.0/g/NBIRTH/n${i}`, nbirth(Array.from({ length: metrics }, (_, m) => metric(`m${m}`, 'Int8', 1, { alias: m }))))
  for (let i = 0; i < 50; i++) birth(i)
  t.ok(sessions.size <= 100)
  const seen = (i: number): boolean =>
    take(`spBv1.0/g/NDATA/n${i}`, { timestamp: NOW, seq: 1, metrics: [{ alias: 1, value: 1, type: 'Int8' }] }).points.length > 0
  t.notOk(seen(0))
  t.ok(seen(49))
  const { points, error } = birth(50, 200)
  t.equal(points[0].measurement, 'n50', 'its own values have names')
  t.match(error, { code: 'CARDINALITY_EXCEEDED', message: /sparkplug_b\.max_metrics is 100/ })
  for (let i = 0; i < 1000; i++) take(`spBv1.0/g/DBIRTH/n49/d${i}`, { timestamp: NOW, metrics: [] })
  t.ok(sessions.size <= 100, 'devices count too')
  const long = take('spBv1.0/g/NBIRTH/long', nbirth([metric('x'.repeat(100_000), 'Int8', 1)]))
  t.match(long.error, { code: 'CARDINALITY_EXCEEDED' }, 'and so do long names')
})

t.test('topics', async (t) => {
  t.same(readTopic('spBv1.0/g/NDATA/n'), { type: 'NDATA', group: 'g', node: 'n', device: undefined })
  t.same(readTopic('spBv1.0/g/DDATA/n/d'), { type: 'DDATA', group: 'g', node: 'n', device: 'd' })
  for (const topic of ['spBv1.0/g/NCMD/n', 'spBv1.0/g/DCMD/n/d', 'spBv1.0/STATE/host']) t.equal(readTopic(topic), 'ignored')
  for (const topic of [
    '',
    'spBv1.0',
    'spAv1.0/g/NDATA/n',
    'spBv1.0/g/NDATA',
    'spBv1.0/g/NDATA/n/d',
    'spBv1.0/g/DDATA/n',
    'spBv1.0/g/DDATA/n/',
    'spBv1.0/g/DDATA/n/d/e',
    'spBv1.0//NDATA/n',
    `spBv1.0/g/NDATA/${'n'.repeat(600)}`,
    'spBv1.0/g/toString/n',
  ])
    t.equal(readTopic(topic), undefined, topic)
  const { take } = host()
  t.throws(() => take('plant/temperature', { timestamp: NOW }), { code: 'BAD_REQUEST', message: /it is no topic of Sparkplug B/ })
  t.throws(() => take('spBv1.0/g/NBIRTH/n', Buffer.from('not protobuf')), { code: 'BAD_REQUEST' })
  t.throws(() => take('spBv1.0/g/NDATA/n', Buffer.from('not protobuf')), { code: 'BAD_REQUEST' })
})

t.test("tags of the topic's rules stand beside those of Sparkplug", async (t) => {
  const { take } = host()
  const send = (tags: string[]) => take('spBv1.0/g/NDATA/n', { timestamp: NOW, metrics: [metric('a', 'Int8', 1)] }, { tags, measurement: 'all' })
  t.match(send(['site', 'x', 'group_id', 'g']).points, [{ measurement: 'all', tags: { site: 'x', group_id: 'g', edge_node_id: 'n' } }])
  t.throws(() => send(['group_id', 'other']), { code: 'INVALID_POINT', message: /its topic says "g"/ })
})

t.test('a large message is read in turns, also while numbers of series are given back', async (t) => {
  const { sessions, decoder, resolver } = host()
  const body = encode({ timestamp: NOW, metrics: Array.from({ length: 1000 }, (_, i) => metric(`m${i}`, 'Int32', i)) })
  const session = atOnce(sessions.arrived('spBv1.0/g/DBIRTH/n/d', body, false))
  const batch = new WriteBatch(resolver)
  const work = decoder.decode({ body, session: session as never, time: 1n, measurement: undefined, tags: [] }, batch)
  let turns = 1
  let step = work.next()
  for (; step.done !== true; turns++) {
    if (turns === 5) resolver.epoch++
    step = work.next()
  }
  t.equal(step.value, undefined)
  t.ok(turns > 10, `${turns} turns`)
  const fields = Object.assign(
    {},
    ...pointsOf(batch, resolver)
      .filter(({ measurement }) => measurement === 'd')
      .map((point) => point.fields),
  )
  t.equal(Object.keys(fields).length, 1000)
  t.equal(fields.m999, 999n)
})

t.test('a hostile birth is looked at in turns, and so is what comes behind it, in order', async (t) => {
  const { sessions, decoder, resolver } = host(200_000)
  const many = (count: number) => Array.from({ length: count }, (_, i) => metric(`m${i}`, 'Int32', i, { alias: i + 1 }))
  const turnsOf = (work: Work<unknown>): number => {
    let turns = 1
    while (work.next().done !== true) turns++
    return turns
  }
  const flat = encode({ timestamp: NOW, seq: 0, metrics: many(60_000) })
  t.ok(turnsOf(sessions.arrived('spBv1.0/g/NBIRTH/n', flat, false)) > 900, 'metrics')
  const nested = encode({ timestamp: NOW, seq: 1, metrics: [metric('t', 'Template', { isDefinition: false, templateRef: 'Motor', metrics: many(5000) })] })
  t.ok(turnsOf(sessions.arrived('spBv1.0/g/DBIRTH/n/d', nested, false)) > 70, 'members of a template')
  const session = atOnce(sessions.arrived('spBv1.0/g/DBIRTH/n/e', nested, false))
  const batch = new WriteBatch(resolver)
  t.ok(turnsOf(decoder.decode({ body: nested, session: session as never, time: 1n, measurement: undefined, tags: [] }, batch)) > 70, 'their values')
})
