import t, { type Test } from 'tap'
import { AnswerMemory, type HeldAnswer } from './answer-memory.ts'

class Answer implements HeldAnswer {
  readonly namespace: string
  held: number
  gone = 0
  isCut = false
  ended = false

  constructor(namespace: string, held: number) {
    this.namespace = namespace
    this.held = held
  }

  bytes(): number {
    return this.held
  }

  sent(): number {
    return this.gone
  }

  over(): boolean {
    return this.ended || this.isCut
  }

  cut(): void {
    this.isCut = true
  }
}

function memory(t: Test, capacity: number, ...answers: Answer[]) {
  let cut = 0
  const held = new AnswerMemory(capacity, (count) => {
    cut += count
  })
  t.teardown(() => held.close())
  for (const answer of answers) held.add(answer)
  return { held, cut: () => cut, left: () => answers.flatMap(({ isCut }, i) => (isCut ? [] : [i])) }
}

t.test('within the capacity nothing is cut; above it the namespace that has most gives way, its oldest first', async (t) => {
  const { held, cut, left } = memory(t, 100, new Answer('a', 40), new Answer('b', 30), new Answer('a', 30))
  held.look()
  t.same(left(), [0, 1, 2])
  t.equal(held.total, 100)
  const more = new Answer('a', 30)
  held.add(more)
  held.look()
  t.same(left(), [1, 2])
  t.notOk(more.isCut)
  t.equal(held.total, 90)
  t.equal(cut(), 1)
})

t.test('who does not read goes before who reads', async (t) => {
  const slow = new Answer('a', 60)
  const { held, left } = memory(t, 100, slow, new Answer('a', 30), new Answer('a', 30))
  slow.gone = 1
  held.look()
  t.same(left(), [0, 2])
})

t.test('what is over is forgotten, and the only answer stays whatever its size', async (t) => {
  const done = new Answer('a', 50)
  const { held, cut } = memory(t, 100, done)
  done.ended = true
  held.look()
  t.ok(done.isCut, 'what it has is given up: it may not have heard that nobody is there')
  t.equal(held.total, 0)
  const large = new Answer('a', 500)
  held.add(large)
  held.add(new Answer('a', 0))
  held.look()
  t.notOk(large.isCut)
  held.remove(large)
  t.equal(held.total, 0)
  t.equal(cut(), 0)
})

t.test('answers of one connection count as one that is cut', async (t) => {
  const [first, second] = [new Answer('a', 60), new Answer('a', 60)]
  first.cut = () => {
    first.isCut = true
    second.ended = true
  }
  const { held, cut } = memory(t, 10, first, second, new Answer('b', 5), new Answer('b', 4))
  held.look()
  t.equal(cut(), 1)
  t.equal(held.total, 9)
})
