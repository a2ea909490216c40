/** The end of the newest file of the queue: what a crash may have torn is cut, with all behind it; what has been damaged is set aside. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { FRAME_HEADER } from '../common/log/log.ts'
import { LogDisk } from '../embedded/testing/log-disk.ts'
import { append, type Life, lifeOn, READER, readAll, settle } from './testing-queue.ts'

const SECTOR = 512

async function opened(disk: LogDisk): Promise<Life> {
  const life = lifeOn(disk, { fileBytes: 1 << 20 })
  await disk.run(life.queue.open())
  return life
}

/** The newest file that has records, and where they begin and the last one ends. */
function newestOf(disk: LogDisk): { name: string; bytes: Uint8Array; starts: number[] } {
  const [name, whole] = [...disk.files].filter(([, { length }]) => length > 8).sort()[0]
  const bytes = whole.slice()
  const view = new DataView(bytes.buffer)
  const starts = [8]
  while (starts[starts.length - 1] < bytes.length) {
    const start = starts[starts.length - 1]
    starts.push(start + FRAME_HEADER + view.getUint32(start, true))
  }
  return { name, bytes, starts }
}

t.test('a last record with a bit that turned is set aside: no crash leaves that', async (t) => {
  const disk = new LogDisk(seeded(1))
  const life = await opened(disk)
  for (let n = 0; n < 3; n++) await disk.run(append(life, n, 2))
  disk.kill()
  const { name, bytes, starts } = newestOf(disk)
  t.equal(starts.length, 4)
  bytes[starts[2] + FRAME_HEADER + 20] ^= 1
  disk.put(name, bytes)
  const again = await opened(disk)
  t.same((await readAll(disk, again, again.queue.attach(READER, undefined))).numbers, [0, 1])
  t.same([...again.aside.values()], [bytes.slice(starts[2])])
  t.equal(again.damaged, 1)
})

t.test('behind a torn record no other of the same write counts, though it is whole', async (t) => {
  const disk = new LogDisk(seeded(2))
  const life = await opened(disk)
  await disk.run(append(life, 0, 2))
  settle(disk)
  const written = [1, 2].map((n) => append(life, n, 400).catch(() => {}))
  settle(disk)
  await Promise.all(written)
  disk.kill()
  const { name, bytes, starts } = newestOf(disk)
  t.equal(starts.length, 4)
  const sector = starts[1] + SECTOR - (starts[1] % SECTOR)
  t.ok(sector + SECTOR < starts[2], 'a sector lies within the first of the two')
  bytes.fill(0, sector, sector + SECTOR)
  disk.put(name, bytes)
  const again = await opened(disk)
  t.same(again.queue.counted, { records: 1, points: 2 })
  t.equal((disk.files.get(name) as Uint8Array).length, starts[1])
  await disk.run(append(again, 3, 2))
  t.same((await readAll(disk, again, again.queue.attach(READER, undefined))).numbers, [0, 3])
  t.same([again.damaged, again.dropped], [0, []])
})
