import { setImmediate as turn } from 'node:timers/promises'
import { definePlugin, type Svc, type WriteBatch, type WriteResult } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { type BootOptions, boot, ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { Replay } from './replay.ts'
import { Source } from './source.ts'
import type { SourceMessage, SourceOptions } from './types.ts'

interface Row {
  id: number
  key?: string
  fault?: 'undecodable' | 'bug' | 'refused'
}

/** Refusals that a write tells of. */
const TOLD = 16
const NOW = BigInt(Date.now()) * 1_000_000n

/** A row a message, in the measurement `m`; rows of one key share a series and a time, so that the last one written stays. */
function decode(body: Row[], batch: WriteBatch): void {
  for (const { id, key, fault } of body) {
    const ref = batch.resolver.measurement(batch.namespace, 'm')
    const table = batch.table(ref)
    const series = batch.resolver.series(ref, key === undefined ? ['id', String(id)] : ['key', key])
    const row = table.addRow(series, Number(BigInt.asIntN(32, NOW)), Number(BigInt.asIntN(32, NOW >> 32n)), 0)
    if (fault === 'undecodable') throw new SvcError('BAD_REQUEST', `no points in message ${id}`)
    if (fault === 'bug') throw new TypeError(`a bug met message ${id}`)
    table.column('v', 'float64').setF64(row, fault === 'refused' ? Number.NaN : id)
  }
}

type Write = (batch: WriteBatch, write: () => Promise<WriteResult>) => Promise<WriteResult>

async function setUp(t: Test, options: Partial<SourceOptions<Row[]>> = {}, write?: Write, boots: BootOptions = {}) {
  const kept: { source?: Source<Row[]>; svc?: Svc } = {}
  const plugin = definePlugin({
    id: 'feed',
    summary: 'Takes messages',
    stability: 'beta',
    capabilities: ['points'],
    setup(svc) {
      kept.svc = svc
      kept.source = new Source<Row[]>(svc, { name: 'feed', decode, maxPauseMs: 2, ...options })
    },
  })
  const node = await boot({ plugins: [plugin], ...boots })
  t.teardown(() => node.stop())
  const engine = node.storage
  const original = engine.write.bind(engine)
  if (write !== undefined) engine.write = (batch, how) => write(batch, () => original(batch, how))
  const source = kept.source as Source<Row[]>
  const stored = async () => {
    const values = new Map<string, number>()
    if ((await engine.measurements('')).length === 0) return values
    for await (const { tags, columns } of engine.scan({ namespace: '', measurement: 'm' })) {
      const { values: found } = columns[0]
      values.set(tags.key ?? tags.id, found[found.length - 1] as number)
    }
    return values
  }
  const settled: Record<number, string> = {}
  const message = (rows: Row[], more: Partial<SourceMessage<Row[]>> = {}): SourceMessage<Row[]> => {
    const settle = (how: string) => {
      const { id } = rows[0]
      settled[id] = settled[id] === undefined ? how : `${settled[id]}, ${how}`
    }
    return { body: rows, bytes: 100, ack: () => settle('ack'), nack: ({ code }) => settle(code), ...more }
  }
  const idle = async () => {
    while (source.status().inFlight.messages > 0) await turn()
  }
  return { source, node, stored, settled, message, idle, svc: kept.svc as Svc }
}

t.test('a message is acknowledged when its points are durable, not before', async (t) => {
  const gate = Promise.withResolvers<void>()
  let writes = 0
  const { source, stored, settled, message, idle } = await setUp(t, {}, async (_, write) => {
    writes++
    await gate.promise
    return write()
  })
  for (let id = 0; id < 5; id++) await source.take(message([{ id }]))
  while (writes === 0) await turn()
  for (let i = 0; i < 20; i++) await turn()
  t.same(settled, {}, 'the write is under way')
  t.match(source.status(), { inFlight: { messages: 5, bytes: 500 }, acknowledged: 0 })
  gate.resolve()
  await idle()
  t.same(settled, { 0: 'ack', 1: 'ack', 2: 'ack', 3: 'ack', 4: 'ack' })
  t.equal(writes, 1, 'what came together was written together')
  t.equal((await stored()).size, 5)
})

t.test('what cannot be decoded or stored is with the dead letters, and all else is stored', async (t) => {
  const dead: string[] = []
  const { source, stored, settled, message, idle, node } = await setUp(t, { deadLetter: (body, { code }) => void dead.push(`${body[0].id} ${code}`) })
  void source.take(message([{ id: 0 }]))
  void source.take(message([{ id: 1 }, { id: 10, fault: 'undecodable' }]))
  void source.take(message([{ id: 2, fault: 'bug' }]))
  void source.take(message([{ id: 3 }, { id: 30, fault: 'refused' }, { id: 31 }]))
  void source.take(message([{ id: 4 }]))
  await idle()
  t.same(dead, ['1 BAD_REQUEST', '2 INTERNAL_ERROR', '3 PARTIAL_WRITE'])
  t.same(settled, { 0: 'ack', 1: 'ack', 2: 'ack', 3: 'ack', 4: 'ack' })
  t.same([...(await stored()).keys()].sort(), ['0', '3', '31', '4'])
  t.match(source.status(), {
    received: 5,
    acknowledged: 2,
    deadLettered: 3,
    returned: 0,
    points: 4,
    pointsRefused: 1,
    lastError: /some of its points were refused/,
  })
  const text = (await node.inject('/metrics')).body
  t.match(text, /svc_source_messages_total\{source="feed",outcome="dead_lettered"\} 3/)
  t.match(text, /svc_source_points_written_total\{source="feed"\} 4/)
  t.match(text, /svc_source_messages_in_flight\{source="feed"\} 0/)
})

t.test('a message that can be read in part: the rest is stored, and it is with the dead letters as well', async (t) => {
  const dead: string[] = []
  const { source, stored, settled, message, idle } = await setUp(t, {
    deadLetter: (body, { code, message }) => void dead.push(`${body[0].id} ${code} ${message}`),
    decode: (body, batch) => {
      decode(
        body.filter(({ fault }) => fault === undefined),
        batch,
      )
      return body.some(({ fault }) => fault !== undefined) ? new SvcError('PARTIAL_WRITE', 'line 2 is no point') : undefined
    },
  })
  void source.take(message([{ id: 0 }]))
  void source.take(message([{ id: 1 }, { id: 2, fault: 'undecodable' }, { id: 3 }]))
  void source.take(message([{ id: 4 }]))
  await idle()
  t.same(dead, ['1 PARTIAL_WRITE line 2 is no point'])
  t.same(settled, { 0: 'ack', 1: 'ack', 4: 'ack' })
  t.same([...(await stored()).keys()].sort(), ['0', '1', '3', '4'])
  t.match(source.status(), { acknowledged: 2, deadLettered: 1, points: 4 })
})

t.test('rows that cannot share a batch: a message is acknowledged when all its batches are durable, and its refusals are its own', async (t) => {
  const dead: number[] = []
  let writes = 0
  const { source, stored, settled, message, idle } = await setUp(
    t,
    {
      deadLetter: (body) => void dead.push(body[0].id),
      decode: (body, batch, _, further) => {
        for (const row of body) decode([row], row.id % 2 === 0 ? batch : further('odd'))
      },
    },
    async (batch, write) => {
      writes++
      // The second batch finds no room, twice: it is what counts where the first can never be written.
      const isSecond = batch.tables.some((table) => table.position[0] === 0 && table.find('v')?.f64[0] === 1)
      if (writes <= 4 && isSecond) throw new SvcError('STORAGE_FULL', 'full')
      if (writes > 2 && writes <= 4) throw new SvcError('PAYLOAD_TOO_LARGE', 'never')
      return write()
    },
  )
  void source.take(message([{ id: 0 }, { id: 1 }]))
  void source.take(message([{ id: 2 }, { id: 3, fault: 'refused' }]))
  void source.take(message([{ id: 4 }, { id: 5, fault: 'undecodable' }]))
  void source.take(message([{ id: 7 }]))
  await idle()
  t.equal(writes, 6, 'both again')
  t.same(dead, [2, 4])
  t.same(settled, { 0: 'ack', 2: 'ack', 4: 'ack', 7: 'ack' })
  t.same([...(await stored()).keys()].sort(), ['0', '1', '2', '7'])
})

t.test('a refusal in the first of several batches is the message’s as well as one in the last', async (t) => {
  const dead: number[] = []
  const { source, settled, message, idle } = await setUp(t, {
    deadLetter: (body) => void dead.push(body[0].id),
    decode: (body, batch, _, further) => {
      for (const row of body) decode([row], row.id % 2 === 0 ? batch : further('odd'))
    },
  })
  void source.take(message([{ id: 0, fault: 'refused' }, { id: 1 }]))
  await idle()
  t.same(dead, [0])
  t.same(settled, { 0: 'ack' })
})

t.test('a message that finds no room behind others in a batch is written in the next one', async (t) => {
  const dead: number[] = []
  const { source, stored, settled, message, idle } = await setUp(t, {
    deadLetter: (body) => void dead.push(body[0].id),
    decode: (body, batch) => {
      if (batch.rows + body.length > 3) throw new SvcError('INVALID_POINT', 'cannot hold more than 3 points in one write')
      decode(body, batch)
    },
  })
  void source.take(message([{ id: 0 }, { id: 1 }]))
  void source.take(message([{ id: 2 }, { id: 3 }]))
  void source.take(message([{ id: 4 }, { id: 5 }, { id: 6 }, { id: 7 }]))
  void source.take(message([{ id: 8 }]))
  await idle()
  t.same(dead, [4], 'one that has none by itself is a dead letter')
  t.same(settled, { 0: 'ack', 2: 'ack', 4: 'ack', 8: 'ack' })
  t.same([...(await stored()).keys()].sort(), ['0', '1', '2', '3', '8'])
})

t.test('a quota that a message has used up is its own fault: it is a dead letter, and holds up nobody', async (t) => {
  const dead: number[] = []
  const { source, stored, message, idle } = await setUp(t, {
    deadLetter: (body) => void dead.push(body[0].id),
    decode: (body, batch) => {
      if (body[0].id === 1) throw new SvcError('RATE_LIMITED', 'as many series as the namespace may have')
      decode(body, batch)
    },
  })
  for (let id = 0; id < 3; id++) void source.take(message([{ id }]))
  await idle()
  t.same(dead, [1])
  t.equal((await stored()).size, 2)
})

t.test('a write has no more messages and bytes than it may', async (t) => {
  for (const [limits, wanted] of [
    [{ maxBatchMessages: 2 }, [2, 2, 1]],
    [{ maxBatchBytes: 350 }, [3, 2]],
  ] as const) {
    const writes: number[] = []
    const { source, message, idle } = await setUp(t, limits, (batch, write) => {
      writes.push(batch.rows)
      return write()
    })
    for (let id = 0; id < 5; id++) void source.take(message([{ id }]))
    await idle()
    t.same(writes, wanted)
  }
})

t.test('a write that fails inside the server is tried again: its messages are no dead letters', async (t) => {
  let fails = 3
  const dead: number[] = []
  const { source, stored, settled, message, idle } = await setUp(t, { deadLetter: (body) => void dead.push(body[0].id) }, async (_, write) => {
    if (fails-- > 0) throw new SvcError('DATABASE_ERROR', 'cannot write the log')
    return write()
  })
  for (let id = 0; id < 3; id++) void source.take(message([{ id }]))
  await idle()
  t.same(dead, [])
  t.same(settled, { 0: 'ack', 1: 'ack', 2: 'ack' })
  t.equal((await stored()).size, 3)
})

t.test('of many refused rows each is laid at its message', async (t) => {
  const dead: number[] = []
  const { source, stored, settled, message, idle } = await setUp(t, { deadLetter: (body) => void dead.push(body[0].id) })
  for (let id = 0; id < 60; id++) void source.take(message([{ id }, { id: 100 + id, ...(id % 2 === 1 && { fault: 'refused' }) }]))
  await idle()
  t.same(
    dead,
    Array.from({ length: 30 }, (_, i) => i * 2 + 1),
  )
  t.ok(Object.values(settled).every((how) => how === 'ack'))
  t.equal((await stored()).size, 90)
})

t.test('of refused rows that are not told of each is laid at its message, be it one', async (t) => {
  const dead: number[] = []
  const { source, stored, settled, message, idle } = await setUp(t, { deadLetter: (body) => void dead.push(body[0].id) })
  const refused = (id: number, rows: number): Row[] => Array.from({ length: rows }, (_, i) => ({ id: 1000 * id + 1000 + i, fault: 'refused' }))
  // As many as a write tells of, and one more.
  void source.take(message([{ id: 0 }, ...refused(0, TOLD)]))
  void source.take(message([{ id: 1 }, ...refused(1, 1)]))
  void source.take(message([{ id: 2 }]))
  await idle()
  t.same(dead, [0, 1])
  t.same(settled, { 0: 'ack', 1: 'ack', 2: 'ack' })
  t.equal((await stored()).size, 3)
})

t.test('one message with more refused rows than are told of does not have all others written one by one', async (t) => {
  const dead: number[] = []
  let writes = 0
  const { source, stored, settled, message, idle } = await setUp(
    t,
    { deadLetter: (body) => void dead.push(body[0].id), maxMessages: 2000, maxBatchMessages: 2000 },
    (_, write) => {
      writes++
      return write()
    },
  )
  const bad = [0, 300, 301, 799]
  for (let id = 0; id < 800; id++) {
    const refused: Row[] = bad.includes(id) ? Array.from({ length: 40 }, (_, i) => ({ id: 1000 * id + 1000 + i, fault: 'refused' })) : []
    void source.take(message([{ id, key: 'last' }, { id }, ...refused]))
  }
  await idle()
  t.same(dead, bad)
  t.equal(Object.values(settled).filter((how) => how === 'ack').length, 800, 'each is settled once')
  const found = await stored()
  t.equal(found.size, 801)
  t.equal(found.get('last'), 799, 'they were written in their order')
  t.ok(writes < 60, `${writes} writes`)
})

t.test('of a write that fails for a few of its messages most are written together again', async (t) => {
  const dead: number[] = []
  let writes = 0
  const { source, stored, message, idle } = await setUp(
    t,
    { deadLetter: (body) => void dead.push(body[0].id), maxMessages: 2000, maxBatchMessages: 2000 },
    (batch, write) => {
      writes++
      const table = batch.table(batch.resolver.measurement(batch.namespace, 'm'))
      const values = table.column('v', 'float64')
      for (let row = 0; row < table.rows; row++) if (values.f64[row] === 400) throw new SvcError('SCHEMA_ERROR', 'not this one')
      return write()
    },
  )
  for (let id = 0; id < 800; id++) void source.take(message([{ id }]))
  await idle()
  t.same(dead, [400])
  t.equal((await stored()).size, 799)
  t.ok(writes < 30, `${writes} writes`)
})

t.test('dead letters that fail or hang hold up nobody: the message is returned', async (t) => {
  let hung = 0
  const deadLetter = (body: Row[]) => {
    if (body[0].id === 0) throw new SvcError('STORAGE_FULL', 'no room for dead letters')
    hung++
    return new Promise<void>(() => {})
  }
  const { source, settled, message, idle } = await setUp(t, { deadLetter, deadLetterMs: 20 })
  for (let id = 0; id < 2; id++) void source.take(message([{ id, fault: 'undecodable' }]))
  for (let id = 2; id < 6; id++) void source.take(message([{ id }]))
  while (settled[5] === undefined) await turn()
  t.match(settled, { 2: 'ack', 3: 'ack', 4: 'ack', 5: 'ack' })
  await idle()
  t.match(settled, { 0: 'STORAGE_FULL', 1: 'WRITE_TIMEOUT' })
  t.equal(hung, 1)
})

t.test('it is bounded: asks to pause, returns what is too much, and goes on', async (t) => {
  const gate = Promise.withResolvers<void>()
  const asked: string[] = []
  const { source, settled, message, idle } = await setUp(
    t,
    { maxMessages: 8, pause: () => void asked.push('pause'), resume: () => void asked.push('resume') },
    async (_, write) => {
      await gate.promise
      return write()
    },
  )
  let room = false
  for (let id = 0; id < 5; id++) await source.take(message([{ id }]))
  t.same(asked, [])
  void source.take(message([{ id: 5 }])).then(() => (room = true))
  t.same(asked, ['pause'])
  for (let id = 6; id < 10; id++) void source.take(message([{ id }]))
  for (let i = 0; i < 20; i++) await turn()
  t.same(settled, { 8: 'BACKPRESSURE', 9: 'BACKPRESSURE' })
  t.notOk(room)
  gate.resolve()
  await idle()
  await turn()
  t.same(asked, ['pause', 'resume'])
  t.ok(room)
  void source.take(message([{ id: 20 }], { bytes: 1e9 }))
  t.same(asked, ['pause', 'resume', 'pause'], 'bytes count too')
  await idle()
  t.equal(settled[20], 'ack')
})

t.test('at a stop, what is under way ends or is returned in time, and nothing more is taken', async (t) => {
  let full = false
  const { source, node, settled, message, idle } = await setUp(t, { drainMs: 30 }, async (_, write) => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
    return write()
  })
  source.connected()
  void source.take(message([{ id: 0 }]))
  await idle()
  t.match(source.status(), { up: true, status: 'running' })
  full = true
  for (let id = 1; id < 4; id++) void source.take(message([{ id }]))
  t.same(await node.stop(), [])
  t.same(settled, { 0: 'ack', 1: 'STORAGE_FULL', 2: 'STORAGE_FULL', 3: 'STORAGE_FULL' })
  await source.take(message([{ id: 9 }]))
  t.equal(settled[9], 'DATABASE_CLOSED')
  t.match(source.status(), { up: false, status: 'stopped', inFlight: { messages: 0 } })
})

t.test('at a stop, what others have taken of its time is not waited for once more', async (t) => {
  const clock = new ManualClock()
  const full: Write = () => Promise.reject(new SvcError('STORAGE_FULL', 'full'))
  const boots = { clock, config: { server: { shutdown_timeout_secs: 20 } } }
  const { source, node, settled, message, svc } = await setUp(t, { drainMs: 600_000 }, full, boots)
  source.connected()
  svc.stopping.addEventListener('abort', () => setImmediate(() => clock.skip(16_000)))
  void source.take(message([{ id: 0 }]))
  t.same(await node.stop(), [], 'four fifths of the limit are over')
  t.same(settled, { 0: 'STORAGE_FULL' })
})

t.test('a namespace that nobody can read keeps the messages, and says why', async (t) => {
  const { source, settled, message } = await setUp(t, { namespace: 'acme', maxWaitMs: 10 })
  void source.take(message([{ id: 0 }]))
  while (settled[0] === undefined) await turn()
  t.equal(settled[0], 'FORBIDDEN')
  t.match(source.status().lastError, /cannot use namespace "acme" as "system:feed:feed"/)
})

t.test('whatever the storage does: acknowledged is durable, each is settled once, and the order of a key holds', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const chance = (p: number) => random() < p
  for (const maxWrites of [1, 4]) {
    const durable = new Set<number>()
    const faulty: Write = async (batch, write) => {
      const ids = batch.tables.flatMap((table) => {
        const column = table.find('v')
        return Array.from({ length: table.rows }, (_, row) => (column?.has(row) ? column.f64[row] : Number.NaN))
      })
      for (let turns = Math.floor(random() * 4); turns > 0; turns--) await turn()
      if (chance(0.12)) throw new SvcError('BACKPRESSURE', 'full')
      if (chance(0.05)) throw Object.assign(new Error('write'), { code: 'ENOSPC' })
      if (chance(0.03)) throw new SvcError('OVERLOADED', 'the thread has died')
      if (chance(0.03)) throw new TypeError('a bug in the engine')
      const result = await write()
      for (const id of ids) if (!Number.isNaN(id)) durable.add(id)
      if (chance(0.08)) throw new SvcError('WRITE_TIMEOUT', 'it may still be applied')
      return result
    }
    const dead = new Set<number>()
    const options: Partial<SourceOptions<Row[]>> = {
      maxWrites,
      maxMessages: 64,
      maxBatchMessages: 12,
      deadLetter: (body) => {
        if (chance(0.1)) throw new Error('no dead letters now')
        dead.add(body[0].id)
      },
    }
    const { source, stored, message, idle } = await setUp(t, { ...options, maxPauseMs: 1 }, faulty)
    const settled = new Map<number, string[]>()
    const last = new Map<string, number>()
    const wrong: string[] = []
    for (let id = 0; id < 1200; id++) {
      const key = chance(0.7) ? `k${Math.floor(random() * 5)}` : undefined
      const fault = chance(0.04) ? 'undecodable' : chance(0.02) ? 'bug' : chance(0.03) ? 'refused' : undefined
      const row: Row = { id, ...(key !== undefined && { key }), ...(fault !== undefined && { fault }) }
      if (key !== undefined && fault === undefined) last.set(key, id)
      const how = (outcome: string) => void settled.set(id, [...(settled.get(id) ?? []), outcome])
      const ack = () => {
        how('ack')
        if (fault === undefined ? !durable.has(id) : !dead.has(id)) wrong.push(`${id} was acknowledged and is neither durable nor dead`)
        if (chance(0.02)) throw new Error('the connection is gone')
      }
      await source.take(message([row], { ...(key !== undefined && { key }), ack, nack: () => how('nack') }))
      if (chance(0.3)) await turn()
    }
    await idle()
    t.same(wrong, [])
    t.equal(settled.size, 1200)
    t.same(
      [...settled].filter(([, outcomes]) => outcomes.length !== 1),
      [],
      'each once',
    )
    const values = await stored()
    for (const [key, id] of last) if (values.get(key) !== id) t.fail(`${key} ends with ${values.get(key)} in place of ${id}`)
    for (const id of durable) if (!values.has(String(id)) && ![...last.values()].some((end) => end >= id)) t.fail(`${id} is lost`)
    const { received, acknowledged, deadLettered, returned } = source.status()
    t.equal(acknowledged + deadLettered + returned, received)
    t.ok(deadLettered > 30 && returned > 0, `${deadLettered} dead, ${returned} returned`)
  }
})

t.test('letters that wait for room are given one after the other, however many wait', async (t) => {
  const { source, message, idle, stored } = await setUp(t, { maxBytes: 1000 })
  const again = new Replay('feed', source)
  const letters = Array.from({ length: 50 }, (_, id) => message([{ id }]))
  const replayed = await again.run(async (give) => {
    await Promise.all(letters.map(({ body, bytes }) => give(() => body, bytes as number)))
  })
  await idle()
  t.same(replayed, { messages: 50, failed: 0 })
  t.equal((await stored()).size, 50)
})
