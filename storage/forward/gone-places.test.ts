/** A sender whose place is in a file of the queue that is gone, and what it had passed over there. */
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { LogDisk } from '../embedded/testing/log-disk.ts'
import { filled, lifeOn, READER, readAll } from './testing-queue.ts'

const RECORDS = 60
const POINTS = 2

/** A queue of three files without the middle one, the place behind the first record of that, and what is behind it. */
async function holed(t: Test) {
  const disk = new LogDisk(seeded(3))
  const former = await filled(disk, RECORDS)
  let place = former.queue.attach(READER, undefined)
  const gone = place.file + 1
  while (place.file < gone) place = (await readAll(disk, former, place, 1)).at
  const { numbers } = await readAll(disk, former, { ...place, file: gone + 1, offset: 8 })
  disk.kill()
  disk.fs.unlinkSync([...disk.files.keys()].sort()[1])
  const life = lifeOn(disk)
  await disk.run(life.queue.open())
  t.ok(numbers[0] > place.sequence)
  return { disk, life, place, numbers }
}

t.test('of a sender that may have been further on nothing is said to be lost', async (t) => {
  const { disk, life, place, numbers } = await holed(t)
  const at = life.queue.attach(READER, place)
  t.match(at, { file: place.file + 1, sequence: numbers[0], points: POINTS * numbers[0] })
  t.same(life.queue.present(at), at)
  t.same((await readAll(disk, life, at)).numbers, numbers)
  t.same(life.dropped, [])
})

t.test('of one that was nowhere further on what is missing behind its place is lost', async (t) => {
  const { disk, life, place, numbers } = await holed(t)
  const at = life.queue.attach(READER, place, true)
  t.same(at, place)
  const present = life.queue.present(at)
  t.same((await readAll(disk, life, present)).numbers, numbers)
  const missing = numbers[0] - place.sequence
  t.same(life.dropped, [['damaged', missing, POINTS * missing]])
})

t.test('what it had passed over in files that are gone is lost, and waits no more', async (t) => {
  const { life, place, numbers } = await holed(t)
  const { queue } = life
  const at = queue.attach(READER, { ...place, file: place.file + 1, offset: 8, sequence: numbers[0], points: POINTS * numbers[0] }, true)
  const ahead = queue.waitingFor(READER)
  queue.positions.pass(READER, place.file, { records: 3, points: 7 })
  queue.positions.pass(READER, at.file, { records: 1, points: 2 })
  queue.forgetPassed(READER)
  t.same(life.dropped, [['damaged', 3, 7]])
  t.same(queue.waitingFor(READER), { records: ahead.records + 1, points: ahead.points + 2 })
})
