/** The queue over kills, power cuts and disks that fail or give back other bytes. Seeds are printed; SVC_SEED repeats one. */
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { type Random, seeded } from 'svcdb/lib/random'
import t from 'tap'
import { FRAME_HEADER } from '../common/log/log.ts'
import { failure, LogDisk } from '../embedded/testing/log-disk.ts'
import type { QueuePosition } from './sender-positions.ts'
import { append, filled, lifeOn, names, READER, readAll, settle } from './testing-queue.ts'

const seedOf = (): number => Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

t.test('what was acknowledged is read in order after kills, power cuts and failing calls', async (t) => {
  const first = seedOf()
  const runs = Number(process.env.SVC_SEEDS ?? 60)
  t.comment(`seeds from ${first} on`)
  for (let seed = first; seed < first + runs; seed++) {
    const problem = await lives(seeded(seed))
    if (problem !== undefined) t.fail(`seed ${seed}: ${problem}`)
  }
})

async function lives(random: Random): Promise<string | undefined> {
  const disk = new LogDisk(random)
  let next = 0
  const acked = new Set<number>()
  /** Ever: the upstream has it. */
  const delivered = new Set<number>()
  /** In this life, in order. */
  let got: number[] = []
  let saved: QueuePosition | undefined
  for (let round = 0; round < 6; round++) {
    disk.fault = () => undefined
    const life = lifeOn(disk)
    await disk.run(life.queue.open(saved))
    let at = life.queue.attach(READER, saved)
    got = []
    const failing = random() < 0.5 ? random() * 0.05 : 0
    disk.fault = (call) =>
      failing > 0 && ['write', 'fdatasync', 'writeSync', 'fsyncSync'].includes(call) && random() < failing
        ? failure(random() < 0.6 ? 'ENOSPC' : 'EIO')
        : undefined
    for (let step = 0; step < 40; step++) {
      if (random() < 0.6) {
        const number = next++
        append(life, number, 1 + Math.floor(random() * 8)).then(
          () => acked.add(number),
          () => {},
        )
      } else if (random() < 0.5) {
        const found = await readAll(disk, life, at, Math.floor(random() * 20))
        got.push(...found.numbers)
        for (const number of found.numbers) delivered.add(number)
        at = found.at
        life.queue.advance(READER, at)
        if (random() < 0.3) saved = at
      } else for (let i = random() * 10; i > 0; i--) disk.step()
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (random() < 0.3) settle(disk)
    await new Promise((resolve) => setImmediate(resolve))
    if (!ascending(got)) return `life ${round}: out of order or twice: ${got}`
    if (life.dropped.length > 0 || life.damaged > 0) return `life ${round}: ${JSON.stringify(life.dropped)} dropped, ${life.damaged} damaged`
    if (random() < 0.5) disk.powerCut()
    else disk.kill()
  }
  disk.fault = () => undefined
  const life = lifeOn(disk)
  await disk.run(life.queue.open(saved))
  const at = life.queue.attach(READER, saved)
  got = (await readAll(disk, life, at)).numbers
  if (!ascending(got)) return `at the end out of order or twice: ${got}`
  for (const number of got) delivered.add(number)
  const lost = [...acked].filter((number) => !delivered.has(number))
  if (lost.length > 0) return `lost ${lost}`
  if (life.dropped.length > 0 || life.damaged > 0) return `at the end ${JSON.stringify(life.dropped)} dropped, ${life.damaged} damaged`
  return undefined
}

const ascending = (numbers: readonly number[]): boolean => numbers.every((number, i) => i === 0 || number > numbers[i - 1])

t.test('a write of very many equal points, which take hardly a byte of the queue, is read back', async (t) => {
  const disk = new LogDisk(() => 0)
  const life = lifeOn(disk)
  await disk.run(life.queue.open())
  const from = life.queue.attach(READER, undefined)
  const points = 1 << 18
  const batch = new WriteBatch(names)
  const ref = names.measurement('', 'm')
  const table = batch.table(ref)
  names.begun(batch)
  for (let i = 0; i < points; i++) table.column('n', 'float64').setF64(table.addRow(names.series(ref, ['host', 'a']), 0, 0, i), 5)
  names.ended(batch)
  const head = { points, takenMs: 1000, namespace: '', backfill: false, nonFinite: false }
  await disk.run(life.queue.append(batch, head, (series) => names.of(series).key))
  t.same((await readAll(disk, life, from)).numbers, [5])
  t.same(life.dropped, [])
})

t.test('a flipped bit costs its record, is counted, and holds up nothing', async (t) => {
  const seed = seedOf()
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 40; round++) {
    const disk = new LogDisk(random)
    await filled(disk, 100)
    disk.kill()
    const files = [...disk.files.keys()].filter((name) => (disk.files.get(name) as Uint8Array).length > 100)
    const name = files[Math.floor(random() * files.length)]
    const bytes = (disk.files.get(name) as Uint8Array).slice()
    bytes[8 + Math.floor(random() * (bytes.length - 8))] ^= 1 << Math.floor(random() * 8)
    disk.put(name, bytes)
    const life = lifeOn(disk)
    await disk.run(life.queue.open())
    const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
    const missing = Array.from({ length: 100 }, (_, i) => i).filter((i) => !numbers.includes(i))
    // Of the newest file the last record may be one that a power cut has torn.
    const torn = name === files.at(-1) && life.damaged === 0
    t.equal(numbers.length, 99, `round ${round}: ${missing} missing`)
    if (!torn || missing[0] !== 99) t.same([life.damaged, life.dropped], [1, missing[0] === 99 ? [] : [['damaged', 1, 2]]], `round ${round}`)
  }
})

t.test('a damaged record is set aside as it lay there, and the count goes on behind those that follow it', async (t) => {
  const disk = new LogDisk(seeded(10))
  const life = lifeOn(disk, { fileBytes: 1 << 20 })
  await disk.run(life.queue.open())
  for (let n = 0; n < 5; n++) await disk.run(append(life, n, 2))
  disk.kill()
  const [name, whole] = [...disk.files].sort(([, a], [, b]) => b.length - a.length)[0]
  const starts = [8]
  for (let n = 0; n < 5; n++) starts.push(starts[n] + FRAME_HEADER + new DataView(whole.buffer, whole.byteOffset).getUint32(starts[n], true))
  const bytes = whole.slice()
  bytes[starts[2] + FRAME_HEADER + 20] ^= 1
  disk.put(name, bytes)
  const again = lifeOn(disk)
  await disk.run(again.queue.open())
  t.same(again.queue.counted, { records: 5, points: 10 })
  t.same((await readAll(disk, again, again.queue.attach(READER, undefined))).numbers, [0, 1, 3, 4])
  t.same([...again.aside.values()], [bytes.slice(starts[2], starts[3])])
  t.match([...again.aside.keys()], [/^damaged\//])
})

t.test('a file of which the disk does not say how long it is is told, and holds up nothing', async (t) => {
  const disk = new LogDisk(seeded(11))
  await filled(disk, 60)
  disk.kill()
  const gone = [...disk.files.keys()].sort()[1]
  const life = lifeOn(disk, {}, { ms: 1000 }, gone)
  await disk.run(life.queue.open())
  t.equal(life.damaged, 1)
  const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
  t.ok(numbers.length > 20 && numbers.length < 60)
  t.same(life.dropped, [['damaged', 60 - numbers.length, 2 * (60 - numbers.length)]])
})

t.test('whatever bit of the head of a first record is flipped: the count of what is lost is right', async (t) => {
  const disk = new LogDisk(seeded(1))
  await filled(disk, 100)
  disk.kill()
  const files = [...disk.files.keys()].filter((name) => (disk.files.get(name) as Uint8Array).length > 100)
  t.ok(files.length > 3)
  const whole = disk.files.get(files[2]) as Uint8Array
  // Behind the file's magic: the frame's header and the record's head.
  for (let bit = 8 * 8; bit < 8 * (8 + FRAME_HEADER + 12); bit++) {
    const bytes = whole.slice()
    bytes[bit >> 3] ^= 1 << (bit & 7)
    disk.put(files[2], bytes)
    const life = lifeOn(disk)
    await disk.run(life.queue.open())
    const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
    t.same([numbers.length, life.damaged, life.dropped], [99, 1, [['damaged', 1, 2]]], `bit ${bit}`)
  }
  // Where nothing is before it, its own head says what was: that is no loss.
  for (const name of files.slice(0, 2)) disk.fs.unlinkSync(name)
  const bytes = whole.slice()
  bytes[8 + FRAME_HEADER + 30] ^= 1
  disk.put(files[2], bytes)
  const life = lifeOn(disk)
  await disk.run(life.queue.open())
  const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
  t.ok(numbers[0] > 2)
  t.same([life.damaged, life.dropped], [1, [['damaged', 1, 2]]], 'of the oldest file')
})

t.test('the queue is bounded by bytes: new points are refused, or the oldest go', async (t) => {
  const refusing = new LogDisk(seeded(1))
  const life = await filled(refusing, 60, { maxBytes: 8192 })
  t.throws(() => life.queue.admit(8192 - life.queue.bytes + 1), {
    code: 'STORAGE_FULL',
    message: /forward.max_size is 8192; writes resume when the upstream has taken some/,
  })
  life.queue.admit(8192 - life.queue.bytes)
  t.same(life.dropped, [])

  const dropping = new LogDisk(seeded(2))
  const other = await filled(dropping, 60, { maxBytes: 8192, whenFull: 'drop_oldest' })
  const before = other.queue.waitingFor(READER)
  other.queue.admit(6000)
  const after = other.queue.waitingFor(READER)
  const [records, points] = other.dropped.reduce(([a, b], [, records, points]) => [a + records, b + points], [0, 0])
  t.ok(records > 0)
  t.same([before.records - after.records, before.points - after.points], [records, points], 'what was dropped is counted')
  const { numbers } = await readAll(dropping, other, { file: 1, offset: 8, sequence: 0, points: 0 })
  t.same(
    numbers,
    Array.from({ length: 60 - records }, (_, i) => records + i),
    'the newest are there',
  )
  const dropped = other.dropped.length
  const { sequence } = other.queue.present({ file: 1, offset: 8, sequence: 0, points: 0 })
  t.same([sequence, other.dropped.length], [records, dropped], 'who was there when it was dropped does not count it again')
})

t.test('what finds no room drops nothing, whatever the bounds say', async (t) => {
  for (const whenFull of ['refuse', 'drop_oldest'] as const) {
    const disk = new LogDisk(seeded(3))
    const life = await filled(disk, 60, { maxBytes: 8192, whenFull })
    life.dropped.length = 0
    const before = life.queue.waitingFor(READER)
    t.throws(() => life.queue.admit(10_000), { code: 'PAYLOAD_TOO_LARGE', message: /forward.max_size is 8192; send smaller batches/ }, 'no try would find room')
    t.throws(() => life.queue.admit(8192 - 8 + 1), { code: 'PAYLOAD_TOO_LARGE' }, 'not even where it is the only one')
    t.throws(() => life.queue.admit(8180), { code: 'STORAGE_FULL' }, 'the file that is written to leaves too little')
    t.same(life.queue.waitingFor(READER), before)
    t.same(life.dropped, [])
    settle(disk)
    await new Promise((resolve) => setImmediate(resolve))
    settle(disk)
    if (whenFull === 'refuse') t.throws(() => life.queue.admit(8180), { code: 'STORAGE_FULL' })
    else life.queue.admit(8180)
    t.equal(life.queue.waitingFor(READER).records, whenFull === 'refuse' ? before.records : 0, 'the next try finds room where the oldest go')
  }
})

t.test('points that are too old go by files, and are counted', async (t) => {
  const first = seedOf()
  for (let seed = first; seed < first + 10; seed++) {
    const disk = new LogDisk(seeded(seed))
    const clock = { ms: 0 }
    const life = await filled(disk, 60, { maxAgeMs: 30_000 }, clock)
    const dropped = () => life.dropped.reduce((sum, [, records]) => sum + records, 0)
    life.queue.expire()
    settle(disk)
    t.ok(life.dropped.every(([reason]) => reason === 'age'))
    t.ok(dropped() <= 30 && dropped() > 0, `seed ${seed}: ${dropped()} of 60`)
    clock.ms += 100_000
    life.queue.expire()
    settle(disk)
    life.queue.expire()
    t.same(life.queue.waitingFor(READER), { records: 0, points: 0 }, `seed ${seed}: all of them, though nothing more is written`)
    t.equal(dropped(), 60, `seed ${seed}: each once`)
    await disk.run(append(life, 60, 1))
    const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
    t.same(numbers, [60])
  }
})

t.test('files go when each sender is behind them', async (t) => {
  const disk = new LogDisk(seeded(4))
  const life = await filled(disk, 60)
  life.queue.attach('other', undefined)
  const count = () => [...disk.files.keys()].length
  const all = count()
  const { at } = await readAll(disk, life, life.queue.attach(READER, undefined))
  life.queue.advance(READER, at)
  t.equal(count(), all, 'the other needs them')
  life.queue.advance('other', at)
  t.equal(count(), 1)
  disk.kill()
  const again = lifeOn(disk)
  await disk.run(again.queue.open(at))
  again.queue.attach(READER, at)
  t.same(again.queue.waitingFor(READER), { records: 0, points: 0 })
  await disk.run(append(again, 60, 1))
  const { numbers, at: end } = await readAll(disk, again, at)
  t.same(numbers, [60])
  t.equal(end.sequence, at.sequence + 1, 'numbers go on where nothing is left')
})

t.test('what a kill has left unsynced is durable before anything builds on it', async (t) => {
  const disk = new LogDisk(() => 0)
  const life = lifeOn(disk)
  await disk.run(life.queue.open())
  void append(life, 0, 1)
  while (disk.files.values().next().value?.length === 8) disk.step()
  disk.kill()
  const again = lifeOn(disk)
  await disk.run(again.queue.open())
  await disk.run(append(again, 1, 1))
  disk.powerCut()
  const last = lifeOn(disk)
  await disk.run(last.queue.open())
  t.same((await readAll(disk, last, last.queue.attach(READER, undefined))).numbers, [0, 1])
  t.same(last.dropped, [])
})

t.test('files go one after the other: a power cut leaves no hole that would look like a loss', async (t) => {
  for (let seed = 0; seed < 40; seed++) {
    const disk = new LogDisk(seeded(seed))
    const life = await filled(disk, 60)
    const noted = life.queue.attach(READER, undefined)
    const { at } = await readAll(disk, life, noted, 50)
    life.queue.advance(READER, at)
    disk.powerCut()
    const again = lifeOn(disk)
    await disk.run(again.queue.open())
    const { numbers } = await readAll(disk, again, again.queue.attach(READER, noted))
    if (again.dropped.length > 0 || numbers.at(-1) !== 59 || numbers.some((number, i) => i > 0 && number !== numbers[i - 1] + 1))
      t.fail(`seed ${seed}: ${JSON.stringify(again.dropped)} of ${numbers}`)
  }
  t.pass('none')
})

t.test('what is lost to several senders is counted once', async (t) => {
  const disk = new LogDisk(seeded(8))
  const life = await filled(disk, 60)
  const senders = [READER, 'other'].map((name) => life.queue.attach(name, undefined))
  const [[name, bytes]] = [...disk.files]
  bytes[300] ^= 4
  disk.put(name, bytes)
  for (const place of senders) await readAll(disk, life, place)
  t.equal(life.dropped.length, 1)
  t.match(life.dropped[0], ['damaged', 1])
})

t.test('an empty queue goes on with the numbers that were counted', async (t) => {
  const disk = new LogDisk(seeded(9))
  const life = lifeOn(disk)
  const place = { file: 1, offset: 8, sequence: 60, points: 100 }
  await disk.run(life.queue.open(place))
  life.queue.attach(READER, place)
  await disk.run(append(life, 60, 2))
  t.same(life.queue.waitingFor(READER), { records: 1, points: 2 })
  const { numbers, at } = await readAll(disk, life, life.queue.attach(READER, place))
  t.same(numbers, [60])
  t.match(at, { sequence: 61, points: 102 })
  t.same(life.dropped, [])
})

t.test('what is on its way to the disk takes its room already', async (t) => {
  const disk = new LogDisk(seeded(1))
  const life = lifeOn(disk, { maxBytes: 4000 })
  await disk.run(life.queue.open())
  const { queue } = life
  queue.admit(3000)
  const taken = append(life, 1, 100)
  t.ok(queue.bytes < 1000, 'it is not in a file yet')
  t.throws(() => queue.admit(3000), { code: 'STORAGE_FULL' })
  queue.admit(100)
  settle(disk)
  await taken
  const kept = queue.bytes
  t.ok(kept > 1000)
  disk.fault = (call) => (call === 'write' ? failure('ENOSPC') : undefined)
  const refused = append(life, 2, 10)
  settle(disk)
  await t.rejects(refused)
  queue.admit(4000 - kept)
  t.throws(() => queue.admit(4001 - kept), { code: 'STORAGE_FULL' }, 'what was refused takes none')
})

t.test('a damaged record costs none behind it, however little is read at once', async (t) => {
  const disk = new LogDisk(seeded(10))
  const life = lifeOn(disk, { fileBytes: 1 << 20 })
  await disk.run(life.queue.open())
  const reader = life.queue.attach(READER, undefined)
  const before = life.queue.bytes
  for (let n = 0; n < 5; n++) await disk.run(append(life, n, 45))
  const record = (life.queue.bytes - before) / 5
  t.ok(record < 700 && 2 * record > 700, `a read of 700 bytes ends within the record behind the first, each has ${record}`)
  const [[name, bytes]] = [...disk.files]
  bytes[8 + FRAME_HEADER + 20] ^= 4
  disk.put(name, bytes)
  const { numbers: none, at } = await readAll(disk, life, reader)
  t.same(none, [], 'it is passed over first')
  t.same((await readAll(disk, life, at)).numbers, [1, 2, 3, 4])
  t.same(life.dropped, [['damaged', 1, 45]])
})

t.test('a sector that the disk has lost from what was acknowledged costs what lay there, and nothing behind it', async (t) => {
  const disk = new LogDisk(seeded(11))
  const life = lifeOn(disk, { fileBytes: 1 << 20 })
  await disk.run(life.queue.open())
  for (let n = 0; n < 10; n++) await disk.run(append(life, n, 100))
  disk.kill()
  const [[name, bytes]] = [...disk.files]
  bytes.fill(0, 1024, 1536)
  disk.put(name, bytes)
  const again = lifeOn(disk, { fileBytes: 1 << 20 })
  await disk.run(again.queue.open())
  const { numbers } = await readAll(disk, again, again.queue.attach(READER, undefined))
  t.equal(numbers.at(-1), 9)
  const lost = again.dropped.reduce((sum, [, records]) => sum + records, 0)
  t.ok(lost > 0 && lost <= 3, `${lost} records are lost`)
  t.equal(numbers.length, 10 - lost)
})

t.test('a write that cannot be encoded takes no number: nothing is said to be lost behind it', async (t) => {
  const disk = new LogDisk(seeded(6))
  const life = await filled(disk, 2)
  const before = life.queue.waitingFor(READER)
  const head = { points: 7, takenMs: 0, namespace: '', backfill: false, nonFinite: false }
  const unknown = (): never => {
    throw new SvcError('DATABASE_ERROR', 'cannot write to series 7: the number was never handed out')
  }
  const batch = new WriteBatch(names)
  const ref = names.measurement('', 'm')
  batch.table(ref).addRow(names.series(ref, ['host', 'a']), 0, 0, 0)
  await t.rejects(life.queue.append(batch, head, unknown), { code: 'DATABASE_ERROR' })
  await disk.run(append(life, 2, 1))
  t.equal(life.queue.waitingFor(READER).records, before.records + 1)
  t.equal(life.queue.waitingFor(READER).points, before.points + 1)
  const { numbers } = await readAll(disk, life, life.queue.attach(READER, undefined))
  t.same(numbers, [0, 1, 2])
  t.same(life.dropped, [])
})

t.test('a sender whose place is of another queue begins with the oldest record', async (t) => {
  const disk = new LogDisk(seeded(7))
  const life = await filled(disk, 20)
  const [oldest] = [life.queue.attach('other', undefined)]
  const { at } = await readAll(disk, life, oldest, 5)
  t.same((await readAll(disk, life, life.queue.attach(READER, at))).numbers[0], 5, 'one of this queue is gone on from')
  for (const place of [
    { file: 1, offset: 8, sequence: 21, points: 9000 },
    { file: 99, offset: 5000, sequence: 1000, points: 9000 },
  ])
    t.same(life.queue.attach(READER, place), oldest)
})

t.test('a closed log refuses', async (t) => {
  const disk = new LogDisk(seeded(5))
  const life = await filled(disk, 1)
  await disk.run(life.queue.close())
  await t.rejects(append(life, 1, 1), SvcError)
})
