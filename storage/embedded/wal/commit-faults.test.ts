/** Commits that fail: who hears of it, and what a power cut leaves of them. */

import { classify } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { BOUNDS, FRAME_HEADER, type FsyncPolicy, type WalBounds } from '../../common/log/log.ts'
import { failure, LogDisk } from '../testing/log-disk.ts'
import { LogProcess, recordsOn } from '../testing/log-process.ts'

const PER_BATCH: FsyncPolicy = { kind: 'per_batch' }
const PERIODIC: FsyncPolicy = { kind: 'periodic', ms: 1000 }
const POLICIES: FsyncPolicy[] = [{ kind: 'per_write' }, PER_BATCH, PERIODIC]
/** Nothing that was not synced survives a power cut. */
const FORGETFUL = (): number => 0

async function started(policy: FsyncPolicy, random: () => number = FORGETFUL, bounds?: WalBounds): Promise<{ disk: LogDisk; log: LogProcess }> {
  const disk = new LogDisk(random)
  const log = new LogProcess(disk, policy, undefined, bounds)
  await log.start()
  return { disk, log }
}

t.test('what fails together is refused newest first, with what waits behind it', async (t) => {
  for (const policy of POLICIES) {
    const { disk, log } = await started(policy)
    const refused: number[] = []
    const append = (n: number): void =>
      log.wal.append(
        (out) => out.u8(n),
        () => t.fail('acknowledged'),
        () => refused.push(n),
      )
    append(1)
    append(2)
    disk.fault = (call) => (call === 'write' ? failure('ENOSPC') : undefined)
    disk.step() // the write is under way
    append(3)
    append(4)
    log.settle()
    t.same(refused, [4, 3, 2, 1], policy.kind)
    t.equal(log.wal.poisoned, undefined, 'and nothing more')
  }
})

t.test('a refused record is not back after a power cut, whatever the kernel had stored of it', async (t) => {
  for (const policy of POLICIES) {
    for (let seed = 0; seed < 40; seed++) {
      const { disk, log } = await started(policy, seeded(seed))
      log.append(1)
      log.settle()
      log.append(2)
      log.append(3, 300)
      // A full disk takes a part.
      disk.fault = (call) => (call === 'write' ? failure('ENOSPC') : undefined)
      log.settle()
      disk.fault = () => undefined
      const refused = [2, 3].filter((sequence) => log.outcomes.get(sequence) instanceof Error)
      if (refused.length < 2) t.fail(`${refused}`)
      disk.powerCut()
      const again = new LogProcess(disk, policy)
      const found = await again.start()
      if (found.some((sequence) => refused.includes(sequence))) t.fail(`${policy.kind}, seed ${seed}: ${found} came back, ${refused} were refused`)
    }
  }
  t.pass('none came back')
})

t.test('a truncation that cannot be synced ends all writing: the refusal would promise too much', async (t) => {
  for (const call of ['fdatasync', 'ftruncate'] as const) {
    const { disk, log } = await started(PERIODIC)
    log.append(1)
    log.settle()
    log.append(2)
    disk.fault = (one) => (one === 'write' ? failure('ENOSPC') : one === call ? failure('EIO') : undefined)
    log.settle()
    t.match(log.outcomes.get(2), { code: 'OVERLOADED' }, call)
    disk.fault = () => undefined
    log.append(3)
    t.match(log.outcomes.get(3), { code: 'OVERLOADED' })
    disk.kill()
    t.same(recordsOn(disk), [1], 'what was acknowledged is kept')
  }
})

t.test('a sync that fails ends all writing and cuts off what was not acknowledged', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  log.append(1)
  log.settle()
  log.append(2)
  disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
  log.settle()
  disk.fault = () => undefined
  t.match(log.outcomes.get(2), { code: 'OVERLOADED', message: /restart/ })
  t.same(recordsOn(disk), [1])
})

t.test('a sync that fails once: what was refused is cut off durably, so that no power cut brings it back', async (t) => {
  for (let seed = 0; seed < 40; seed++) {
    const { disk, log } = await started(PER_BATCH, seeded(seed))
    log.append(1)
    log.settle()
    log.append(2)
    let failed = false
    disk.fault = (call) => {
      if (call !== 'fdatasync' || failed) return undefined
      failed = true
      return failure('EIO')
    }
    log.settle()
    if (!(log.outcomes.get(2) instanceof Error)) t.fail(`seed ${seed}: it is acknowledged`)
    disk.powerCut()
    const found = await new LogProcess(disk, PER_BATCH).start()
    if (found.join() !== '1') t.fail(`seed ${seed}: ${found} came back`)
  }
  t.pass('none came back')
})

t.test('a log that fails for want of space is not said to go on by itself', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  log.append(1)
  disk.fault = (call) => (call === 'fdatasync' ? failure('ENOSPC') : undefined)
  log.settle()
  t.match(classify(log.outcomes.get(1)), { code: 'OVERLOADED', message: /restart the server/ })
})

t.test('periodic: what has been applied is settled when it is durable, or not at all', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  await disk.run(log.wal.settled())
  disk.powerCut()
  t.same(recordsOn(disk), [1])
  const other = await started(PERIODIC)
  other.log.append(1)
  other.log.settle()
  other.disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
  await t.rejects(other.disk.run(other.log.wal.settled()), { code: 'OVERLOADED' })
})

t.test('periodic: one sync at a time, since of two only one would hear of an error', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  let syncs = 0
  disk.fault = (call) => {
    if (call === 'fdatasync') syncs++
    return undefined
  }
  disk.tick()
  disk.tick()
  t.equal(syncs, 1)
})

t.test('periodic: a sync that fails refuses what comes after, also what is being written, and keeps what was acknowledged', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
  log.append(2)
  disk.step()
  disk.tick()
  disk.step(true) // the sync ends before the write
  log.append(3)
  log.settle()
  disk.fault = () => undefined
  log.append(4)
  t.match(log.wal.poisoned, { code: 'OVERLOADED' })
  for (const sequence of [2, 3, 4]) t.match(log.outcomes.get(sequence), { code: 'OVERLOADED' }, `record ${sequence}`)
  t.same(recordsOn(disk), [1])
})

t.test('a frame says what was durable when it was written', async (t) => {
  const { disk, log } = await started(PERIODIC)
  const saids = (): number[] => {
    const [bytes] = disk.files.values()
    const view = new DataView(bytes.buffer)
    const found: number[] = []
    for (let at = 8; at < bytes.length; at += FRAME_HEADER + view.getUint32(at, true)) found.push(view.getUint32(at + 8, true))
    return found
  }
  for (const sequence of [1, 2]) {
    log.append(sequence)
    log.settle()
  }
  t.same(saids(), [8, 8], 'written is not durable')
  const { length } = log.wal
  disk.tick()
  log.append(3)
  disk.step(true)
  disk.step(true)
  t.equal(log.outcomes.get(3), 'applied', 'written while the sync runs')
  log.settle()
  log.append(4)
  log.settle()
  t.equal(saids()[3], length, 'what was written when the sync began')
})

t.test('a clean close leaves everything durable under every policy', async (t) => {
  for (const policy of POLICIES) {
    const { disk, log } = await started(policy)
    log.append(1)
    log.settle()
    disk.tick()
    log.append(2) // beside a sync that is under way
    await disk.run(log.wal.close())
    disk.powerCut()
    t.same(recordsOn(disk), [1, 2], policy.kind)
  }
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
  await t.rejects(disk.run(log.wal.close()), { code: 'OVERLOADED' }, 'and says when it does not')
  log.append(2)
  t.match(log.outcomes.get(2), { code: 'OVERLOADED' })
})

t.test('a record that could not be read back is not written', async (t) => {
  const { disk, log } = await started(PER_BATCH, FORGETFUL, { ...BOUNDS, record: 1000 })
  log.append(1)
  t.throws(() => log.append(2, 300), { code: 'PAYLOAD_TOO_LARGE' })
  log.append(3)
  log.settle()
  t.same(recordsOn(disk), [1, 3])
})

t.test('a file never grows beyond what can be read back, however much waits', async (t) => {
  for (const policy of POLICIES) {
    const { disk, log } = await started(policy, FORGETFUL, { file: 3000, record: 2000 })
    for (let sequence = 1; sequence <= 20; sequence++) log.append(sequence, 100)
    log.settle()
    await disk.run(log.wal.close())
    disk.powerCut()
    t.same(recordsOn(disk), log.applied, policy.kind)
    t.equal(log.applied.length, 20)
    for (const [name, { length }] of disk.files) t.ok(length <= 3000, `${name} has ${length} bytes`)
    t.ok(disk.files.size > 2)
  }
})

t.test('a file is filled to the byte, and no further', async (t) => {
  const { log: measured } = await started(PER_BATCH)
  const empty = measured.wal.length
  measured.append(1)
  measured.settle()
  const two = empty + 2 * (measured.wal.length - empty)
  for (const [file, files] of [
    [two, 1],
    [two - 1, 2],
  ]) {
    const { log } = await started(PER_BATCH, FORGETFUL, { file, record: 2000 })
    for (const sequence of [1, 2]) {
      log.append(sequence)
      log.settle()
    }
    t.equal(log.opened.length, files)
  }
})

t.test('periodic: a barrier is not put off for ever by writes that go on', async (t) => {
  const { disk, log } = await started(PERIODIC)
  const done = log.rotate()
  let sequence = 0
  await disk.run(
    done.then((error) => {
      t.equal(error, undefined)
    }),
  )
  let rotated = false
  void log.rotate().then(() => {
    rotated = true
  })
  for (let i = 0; i < 50 && !rotated; i++) {
    log.append(++sequence)
    disk.tick()
    disk.step()
    await Promise.resolve()
  }
  t.ok(rotated, `after ${sequence} writes`)
})

t.test('a write of which the disk took a part is made again as a whole: a power cut leaves nothing that looks corrupt', async (t) => {
  for (const policy of POLICIES) {
    for (let seed = 0; seed < 2000; seed++) {
      const { disk, log } = await started(policy, seeded(seed))
      log.append(1)
      log.settle()
      // Over several sectors, so that parts end within one.
      log.append(2, 700)
      const steps = seed % 6
      for (let i = 0; i < steps; i++) disk.step()
      disk.powerCut()
      const again = new LogProcess(disk, policy)
      try {
        await again.start()
      } catch (error) {
        t.fail(`${policy.kind}, seed ${seed}: ${(error as Error).message}`)
      }
    }
  }
  t.pass('each start went well')
})
