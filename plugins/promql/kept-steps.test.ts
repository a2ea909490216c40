import t from 'tap'
import type { VectorValue } from './eval/value.ts'
import { decodeSteps, encodeSteps } from './kept-steps.ts'
import { LabelList, Labels } from './labels.ts'

/** A vector with a step, whose labels are made when they are asked for. */
function wide(series: number, text: string): { value: VectorValue; made: () => number } {
  let made = 0
  class Counted extends LabelList {
    override at(i: number): Labels {
      made++
      return super.at(i)
    }
  }
  const labels = new Counted(Array.from({ length: series }, (_, i) => Labels.of({ host: `${text}${i}` })))
  return { value: { type: 'vector', labels, steps: 1, values: new Float64Array(series).fill(2), kinds: new Uint8Array(series).fill(1) }, made: () => made }
}

t.test('what is kept comes back', async (t) => {
  const { value } = wide(10, '"\xff\ud800')
  const bytes = encodeSteps({ start: 5, value, annotations: ['info a'] }, 1 << 20)
  const kept = decodeSteps(bytes as Uint8Array)
  t.equal(kept.start, 5)
  t.same(kept.annotations, ['info a'])
  t.same(kept.value.values, value.values)
  t.equal(kept.value.labels.at(9).key, value.labels.at(9).key)
})

t.test('labels that would take more than there is room for are not written out', async (t) => {
  // Its values alone would do.
  const { value, made } = wide(100_000, 'x'.repeat(100))
  t.equal(encodeSteps({ start: 0, value, annotations: [] }, 1 << 20), undefined)
  t.ok(made() < 2000, `${made()} label sets`)
})

t.test('labels that take long to read back are not kept, however much room there is', async (t) => {
  const { value, made } = wide(100_000, 'x'.repeat(100))
  t.equal(encodeSteps({ start: 0, value, annotations: [] }, 1 << 30), undefined)
  t.ok(made() < 20_000, `${made()} label sets`)
})
