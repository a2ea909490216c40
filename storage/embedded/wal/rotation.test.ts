/** From one file of the log to the next, on a disk that forgets and fails. */
import t from 'tap'
import type { FsyncPolicy } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'
import { failure, LogDisk } from '../testing/log-disk.ts'
import { LogProcess, recordsOn } from '../testing/log-process.ts'
import { WAL_FORM } from './form.ts'

const PER_BATCH: FsyncPolicy = { kind: 'per_batch' }
const PERIODIC: FsyncPolicy = { kind: 'periodic', ms: 1000 }
/** Nothing that was not synced survives a power cut; calls end in their order. */
const FORGETFUL = (): number => 0

async function started(policy: FsyncPolicy, opened?: (file: number) => void, disk = new LogDisk(FORGETFUL)): Promise<{ disk: LogDisk; log: LogProcess }> {
  const log = new LogProcess(disk, policy, opened)
  await log.start()
  return { disk, log }
}

t.test('a new file and its name are durable before records go to it', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  log.append(1)
  log.settle()
  t.equal(await disk.run(log.rotate()), undefined)
  log.append(2)
  log.settle()
  disk.powerCut()
  t.same([...disk.files.keys()], [walFileName(1), walFileName(2)])
  t.same(recordsOn(disk), [1, 2])
})

t.test('a new file whose first bytes find only part of their room is not begun: the one before goes on', async (t) => {
  const disk = new LogDisk(FORGETFUL)
  const { writeSync } = disk.fs
  let room = Number.POSITIVE_INFINITY
  disk.fs.writeSync = (fd, bytes) => writeSync(fd, bytes.subarray(0, Math.min(bytes.length, room)))
  const { log } = await started(PER_BATCH, undefined, disk)
  log.append(1)
  log.settle()
  room = 3
  t.match(await disk.run(log.rotate()), { code: 'ENOSPC' })
  t.equal(log.wal.poisoned, undefined)
  log.append(2)
  log.settle()
  room = Number.POSITIVE_INFINITY
  t.equal(await disk.run(log.rotate()), undefined)
  log.append(3)
  log.settle()
  disk.powerCut()
  t.same(recordsOn(disk), [1, 2, 3])
})

t.test('periodic: a file is durable before it is left, and before anybody hears of the next one', async (t) => {
  const disk = new LogDisk(FORGETFUL)
  const heard: number[][] = []
  const { log } = await started(
    PERIODIC,
    (file) => {
      if (file === 1) return
      disk.powerCut()
      heard.push(recordsOn(disk))
    },
    disk,
  )
  log.append(1)
  log.settle()
  await disk.run(log.rotate())
  t.same(heard, [[1]])
})

t.test('periodic: a file is not left while it is being synced', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  disk.tick()
  const rotated = log.rotate()
  log.append(2)
  t.equal(await disk.run(rotated), undefined)
  log.settle()
  t.equal(log.wal.poisoned, undefined)
  t.equal(log.wal.file, 2)
  disk.powerCut()
  t.same(recordsOn(disk), [1])
})

t.test('periodic: a sync that fails when the file is to be left ends all writing, and no other file is begun', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  disk.fault = (call) => (call === 'fdatasync' ? failure('EIO') : undefined)
  t.match(await disk.run(log.rotate()), { code: 'OVERLOADED' })
  disk.fault = () => undefined
  t.match(await disk.run(log.rotate()), { code: 'OVERLOADED' }, 'nor later')
  t.same([...disk.files.keys()], [walFileName(1)])
  log.append(2)
  t.match(log.outcomes.get(2), { code: 'OVERLOADED' })
})

t.test('periodic: so does one that was under way already, even if another would succeed', async (t) => {
  const { disk, log } = await started(PERIODIC)
  log.append(1)
  log.settle()
  let syncs = 0
  disk.fault = (call) => (call === 'fdatasync' && syncs++ === 0 ? failure('EIO') : undefined)
  disk.tick()
  const rotated = log.rotate()
  for (let i = 0; i < 3; i++) disk.step(true)
  t.match(await disk.run(rotated), { code: 'OVERLOADED' })
  t.same([...disk.files.keys()], [walFileName(1)])
})

t.test('a new file that cannot be synced: for want of space it is tried again, otherwise all writing ends', async (t) => {
  for (const what of [walFileName(2), 'wal']) {
    for (const code of ['ENOSPC', 'EIO']) {
      const { disk, log } = await started(PER_BATCH)
      let failed = false
      disk.fault = (call, name) => {
        if (failed || call !== 'fsyncSync' || name !== what) return undefined
        failed = true
        return failure(code)
      }
      t.ok(await disk.run(log.rotate()), `${code} of ${what}`)
      log.append(1)
      log.settle()
      if (code === 'EIO') t.match(log.outcomes.get(1), { code: 'OVERLOADED' })
      else t.equal(log.outcomes.get(1), 'applied')
    }
  }
})

t.test('a file that was begun in vain and cannot be removed is finished before anything is written', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  log.append(1)
  log.settle()
  disk.fault = (call) => (call === 'writeSync' ? failure('ENOSPC') : call === 'unlinkSync' ? failure('EIO') : undefined)
  t.match(await disk.run(log.rotate()), { code: 'ENOSPC' })
  t.equal(disk.files.get(walFileName(2))?.length, 0, 'it is still there')
  log.append(2)
  log.settle()
  t.match(log.outcomes.get(2), { code: 'ENOSPC' }, 'a torn frame before a later file would stop the next start')
  disk.fault = () => undefined
  log.append(3)
  log.settle()
  t.equal(log.outcomes.get(3), 'applied')
  t.same(log.opened, [1, 2])
  t.equal(await disk.run(log.rotate()), undefined, 'and rotation goes on')
  disk.powerCut()
  t.same(recordsOn(disk), [1, 3])
})

t.test('a file begun in vain is gone durably before the old one goes on', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  let synced = 0
  disk.fault = (call, name) => {
    if (call === 'fsyncSync' && name === 'wal') synced++
    if (call === 'write') t.equal(synced, 1, 'its name, come back, would make a torn frame look like one in the middle')
    return call === 'writeSync' ? failure('ENOSPC') : undefined
  }
  t.match(await disk.run(log.rotate()), { code: 'ENOSPC' })
  log.append(1)
  log.settle()
  t.equal(log.outcomes.get(1), 'applied')
})

t.test('a file with records of somebody else is never overwritten', async (t) => {
  const { disk, log } = await started(PER_BATCH)
  const other = await started(PER_BATCH)
  other.log.append(7)
  other.log.settle()
  const bytes = other.disk.files.get(walFileName(1)) as Uint8Array
  disk.put(walFileName(2), bytes)
  t.match(await disk.run(log.rotate()), { code: 'DATABASE_ERROR', message: /000000000002\.wal": it has \d+ bytes/ })
  t.same(disk.files.get(walFileName(2)), bytes)
  log.append(1)
  log.settle()
  t.equal(log.outcomes.get(1), 'applied', 'the file there is goes on')
  t.throws(() => new LogProcess(disk, PER_BATCH).wal.begin(2), { code: 'DATABASE_ERROR' }, 'a start does not begin there either')
})

t.test('not even where they are a byte behind the header', async (t) => {
  const disk = new LogDisk(FORGETFUL)
  const bytes = Uint8Array.of(...WAL_FORM.magic, 1)
  disk.put(walFileName(1), bytes)
  t.throws(() => new LogProcess(disk, PER_BATCH).wal.begin(1), { code: 'DATABASE_ERROR' })
  t.same(disk.files.get(walFileName(1)), bytes)
})

t.test('a start takes over a file that an earlier one began in vain', async (t) => {
  for (const left of [new Uint8Array(0), new Uint8Array(5), new Uint8Array(8), new TextEncoder().encode('SVCW')]) {
    const disk = new LogDisk(FORGETFUL)
    disk.put(walFileName(1), left)
    const { log } = await started(PER_BATCH, undefined, disk)
    log.append(1)
    log.settle()
    t.same(log.opened, [1])
    disk.powerCut()
    t.same(recordsOn(disk), [1])
  }
})

t.test('a full disk does not keep the log from starting: the first write begins the file', async (t) => {
  const disk = new LogDisk(FORGETFUL)
  disk.fault = (call) => (call === 'openSync' ? failure('ENOSPC') : undefined)
  const log = new LogProcess(disk, PERIODIC)
  log.wal.begin(1)
  log.append(1)
  log.settle()
  t.match(log.outcomes.get(1), { code: 'ENOSPC' })
  disk.fault = () => undefined
  log.append(2)
  log.settle()
  t.equal(log.outcomes.get(2), 'applied')
  t.same(recordsOn(disk), [2])
})
