/** Where senders are, what waits for each, and what is lost with a file that goes. */
import t from 'tap'
import { type QueuePosition, SenderPositions } from './sender-positions.ts'

/** Files of ten records of two points. */
const at = (sequence: number, file = Math.floor(sequence / 10) + 1): QueuePosition => ({
  file,
  offset: 8 + (sequence % 10) * 100,
  sequence,
  points: sequence * 2,
})
const count = (records: number) => ({ records, points: records * 2 })

t.test('what waits is what is ahead and what was passed over', async (t) => {
  const positions = new SenderPositions()
  positions.attach('one', at(0))
  positions.advance('one', at(13))
  positions.pass('one', 1, count(3))
  positions.pass('one', 2, count(2))
  t.same(positions.waiting('one', at(20)), count(7 + 5))
  positions.pass('one', 1, count(-1))
  t.same(positions.waiting('one', at(20)), count(7 + 4))
  positions.pass('one', 1, count(-9))
  t.same(positions.waiting('one', at(20)), count(7 + 2), 'never less than none')
  positions.attach('two', at(5))
  t.same(positions.waitingAtMost(at(20)), count(15), 'the slowest')
})

t.test('what was passed over in files that a sender does not come back to waits no more', async (t) => {
  const positions = new SenderPositions()
  positions.attach('one', at(25))
  for (const file of [1, 2, 3]) positions.pass('one', file, count(1))
  positions.comeBackTo('one', at(14))
  t.same([...positions.passed('one').keys()], [2, 3], 'that of the position itself stays')
  positions.comeBackTo('one', undefined)
  t.equal(positions.passed('one').size, 0)
})

t.test('files are needed from the place that a sender comes back to', async (t) => {
  const positions = new SenderPositions()
  positions.attach('one', at(25))
  t.same([...positions.all()], [at(25)])
  positions.comeBackTo('one', at(14))
  t.same([...positions.all()], [at(25), at(14)])
})

t.test('with a file goes what its slowest sender lacks: what is ahead of it there, and what it has passed over', async (t) => {
  const positions = new SenderPositions()
  t.same(positions.lostWith(1, at(0), at(10)), count(10), 'without senders all of it')
  positions.attach('fast', at(25))
  t.same(positions.lostWith(1, at(0), at(10)), count(0), 'who is behind it has it all')
  positions.pass('fast', 1, count(4))
  t.same(positions.lostWith(1, at(0), at(10)), count(4))
  positions.attach('slow', at(3))
  t.same(positions.lostWith(1, at(0), at(10)), count(7))
})

t.test('who was in a file that goes is behind it, and comes back to nothing in it', async (t) => {
  const positions = new SenderPositions()
  positions.attach('one', at(25))
  positions.pass('one', 1, count(4))
  positions.pass('one', 2, count(1))
  positions.comeBackTo('one', at(2))
  positions.attach('two', at(3))
  positions.moveBehind(1, at(10))
  t.same([...positions.all()], [at(25), at(10), at(10)])
  t.same([...positions.passed('one')], [[2, count(1)]])
  t.same(positions.waiting('one', at(30)), count(6))
})
