import t from 'tap'
import { OwnerQueue } from './owner-queue.ts'

t.test('owners take turns, the oldest of each first', async (t) => {
  const queue = new OwnerQueue<string>()
  for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.push(item[0], item)
  t.same(queue.of('a'), ['a1', 'a2', 'a3'])
  t.same(queue.of('z'), [])
  const taken = [queue.shift(), queue.shift()]
  queue.push('a', 'a4')
  queue.push('d', 'd1')
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) taken.push(item)
  t.same(taken, ['a1', 'b1', 'c1', 'a2', 'b2', 'd1', 'a3', 'a4'])
  t.equal(queue.shift(), undefined)
})
