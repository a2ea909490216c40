import t from 'tap'
import type { Expr, LabelMatcher, VectorSelector } from '../ast.ts'
import type { VectorValue } from '../eval/value.ts'
import { Labels } from '../labels.ts'
import { apply, buckets, lines, vector } from '../testing/calls.ts'
import { Looks } from '../testing/counted.ts'
import { infoReference } from './info-reference.ts'
import { identifyingMatchers } from './info-selection.ts'

const pos = { start: 0, end: 1 }
const name = (value: string): LabelMatcher => ({ name: '__name__', op: '=', value })
const selector = (matchers: LabelMatcher[], more: Partial<VectorSelector> = {}): VectorSelector => ({
  kind: 'vector',
  name: '',
  matchers,
  offset: 0,
  pos,
  ...more,
})

interface Asked {
  matchers: string[]
  offset: unknown
  at: unknown
}

async function enrich(base: VectorValue, series: VectorValue, times: number[], data?: LabelMatcher[], first: Expr = selector([name('m')])) {
  const asked: Asked[] = []
  const value = await apply('info', [base], {
    exprs: data === undefined ? [first] : [first, selector(data)],
    instants: async ({ matchers, offset, at }) => {
      asked.push({ matchers: matchers.map((m) => `${m.name}${m.op}${m.value}`), offset, at })
      return { value: series, times: Float64Array.from(times) }
    },
  })
  return { asked, lines: lines(value) }
}

const BASE = vector([{ __name__: 'm', instance: 'a', job: '1' }, 1, 2], [{ __name__: 'm', instance: 'b', job: '1' }, 3, 4])
const INFO = vector([{ __name__: 'target_info', instance: 'a', job: '1', version: 'x', m: 'y' }, 1, 1])

t.test('labels of the info series of the same instance and job are added', async (t) => {
  const { asked, lines } = await enrich(BASE, INFO, [0, 0])
  t.same(lines, ['{__name__=m,instance=a,job=1,m=y,version=x} 1 2', '{__name__=m,instance=b,job=1} 3 4'])
  t.same(asked, [{ matchers: ['instance=~a|b', 'job=1', '__name__=target_info'], offset: 0, at: undefined }])
})

t.test('only labels asked for; series without them go when they must have a value', async (t) => {
  const wanted: LabelMatcher = { name: 'version', op: '=~', value: '.+' }
  t.same((await enrich(BASE, INFO, [0, 0], [wanted])).lines, ['{__name__=m,instance=a,job=1,version=x} 1 2'])
  const optional: LabelMatcher = { name: 'version', op: '=~', value: '.*' }
  t.same((await enrich(BASE, INFO, [0, 0], [optional])).lines, ['{__name__=m,instance=a,job=1,version=x} 1 2', '{__name__=m,instance=b,job=1} 3 4'])
})

t.test('the newest info series counts at each step', async (t) => {
  const own = { __name__: 'target_info', instance: 'a', job: '1' }
  const series = vector([{ ...own, version: 'x' }, 1, 1], [{ ...own, version: 'y' }, undefined, 1])
  const { lines } = await enrich(BASE, series, [1000, 1000, NaN, 2000])
  t.same(lines.slice(0, 2), ['{__name__=m,instance=a,job=1,version=x} 1 _', '{__name__=m,instance=a,job=1,version=y} _ 2'])
  await t.rejects(enrich(BASE, series, [1000, 1000, NaN, 1000]), {
    message: /^found duplicate series for info metric: existing \{__name__="target_info", .*version="x"\} @ 1000, new \{.*\} @ 1000$/,
  })
})

t.test('info metrics that disagree, and histograms, are refused', async (t) => {
  const own = { instance: 'a', job: '1' }
  const series = vector([{ ...own, __name__: 'a_info', v: 'x' }, 1, 1], [{ ...own, __name__: 'b_info', v: 'y' }, 1, 1])
  await t.rejects(enrich(BASE, series, [0, 0, 0, 0], [{ name: '__name__', op: '=~', value: '.*_info' }]), { message: 'conflicting label: v' })
  const histogram = vector([{ ...own, __name__: 'target_info' }, buckets([1]), 1])
  await t.rejects(enrich(BASE, histogram, [0, 0]), { message: 'info sample should be float' })
})

t.test('info series themselves stay as they are', async (t) => {
  const { asked, lines } = await enrich(vector([{ __name__: 'target_info', instance: 'a', job: '1' }, 1]), INFO, [0, 0])
  t.same(lines, ['{__name__=target_info,instance=a,job=1} 1'])
  t.same(asked, [])
})

t.test('which info series are read', async (t) => {
  const sets: Record<string, string>[] = [{ instance: 'a.1', job: 'x' }, { instance: 'b' }, { job: 'y' }, {}]
  const series = sets.map((labels) => Labels.of(labels))
  t.same(
    identifyingMatchers(series).map((list) => list.map((m) => `${m.name}${m.op}${m.value}`)),
    [
      ['instance=a.1', 'job=x'],
      ['instance=b', 'job='],
      ['instance=', 'job=y'],
    ],
  )
  const many = Array.from({ length: 3000 }, (_, i) => Labels.of({ instance: `host-${i}`, job: 'x' }))
  const lists = identifyingMatchers(many)
  t.ok(lists.length > 1, 'long patterns are split')
  const values = lists.flatMap((list) => list[0].value.split('|'))
  t.equal(new Set(values).size, 3000)
  t.equal(values.length, 3000)
})

t.test('info series are read at the time that all selectors agree on', async (t) => {
  const query = { start: 1000, end: 9000, step: 1000 }
  const shifted = selector([], { offset: 5000 })
  const pinned = selector([], { offset: 500, at: 'end' })
  const both = (lhs: Expr, rhs: Expr): Expr => ({ kind: 'binary', op: '+', lhs, rhs, returnBool: false, pos })
  t.same(infoReference(shifted, query), { offset: 5000 })
  t.same(infoReference(pinned, query), { offset: 500, at: 9000 })
  t.same(infoReference(both(shifted, shifted), query), { offset: 5000 })
  t.same(infoReference(both(shifted, selector([])), query), { offset: 0 })
  t.same(infoReference(both(shifted, { kind: 'number', value: 1, pos }), query), { offset: 5000 })
  const subquery: Expr = { kind: 'subquery', expr: shifted, range: 60_000, offset: 700, at: 8000, pos }
  t.same(infoReference({ kind: 'call', name: 'sum_over_time', args: [subquery], type: 'vector', pos }, query), { offset: 5700, at: 8000 })
})

t.test('what is below info() within info() is looked at once, however many there are', async (t) => {
  const levels = 64
  const looks = new Looks()
  const query = { start: 1000, end: 9000, step: 1000 }
  const number: Expr = { kind: 'number', value: 1, pos }
  const plus = (lhs: Expr, rhs: Expr): Expr => ({ kind: 'binary', op: '+', lhs, rhs, returnBool: false, pos })
  let expr = plus(looks.at(plus(number, number)), looks.at(selector([], { offset: 500, at: 'end' })))
  for (let i = 0; i < levels; i++) expr = plus(number, expr)
  for (let i = 0; i < levels; i++) {
    expr = { kind: 'call', name: 'info', args: [expr], type: 'vector', pos }
    t.same(infoReference(expr, query), { offset: 500, at: 9000 })
  }
  t.ok(looks.count > 0 && looks.count <= 20, `${looks.count} times`)
})
