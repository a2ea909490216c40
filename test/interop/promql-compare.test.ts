/** What the comparison with Prometheus lets pass, and no more than that. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, difference } from './promql/compare.ts'

const vector = (...result: unknown[]): Answer => ({ status: 'success', data: { resultType: 'vector', result } })
const float = (value: string): Answer => vector({ metric: { job: 'a' }, value: [1, value] })
const histogram = (count: string, sum: string, ...buckets: unknown[]): Answer => vector({ metric: {}, histogram: [1, { count, sum, buckets }] })
const failed = (error: string): Answer => ({ status: 'error', errorType: 'execution', error })

test('values are the same but for their last digits, and infinities are no other value', () => {
  assert.equal(difference('x', float('100'), float('100.000000001'), true), undefined)
  assert.equal(difference('x', float('+Inf'), float('+Inf'), true), undefined)
  for (const other of ['-Inf', 'NaN', '5', '1e308', 'x']) {
    assert.ok(difference('x', float('+Inf'), float(other), true), other)
    assert.ok(difference('x', float(other), float('+Inf'), true), other)
  }
})

test('digits of what is left of a power are free, and nothing else of it', () => {
  const [a, b] = [float('0.921875'), float('0.953125')]
  assert.equal(difference('(x ^ x) % 1', a, b, true), undefined)
  assert.equal(difference('exp(x) % 1', a, b, true), undefined)
  assert.match(difference('(x + x) % 1', a, b, true) ?? '', /0\.921875/)
  assert.match(difference('x ^ x', a, b, true) ?? '', /0\.921875/)
  assert.match(difference('(x ^ x) % 0', a, float('NaN'), true) ?? '', /NaN/)
  assert.match(difference('(x ^ x) % 1', a, vector(), true) ?? '', /only the first/)
})

test('counts and sums are free where one histogram shows its empty buckets', () => {
  const shown = histogram('NaN', 'NaN', [0, '1', '2', 'NaN'], [0, '4', '+Inf', '+Inf'])
  const hidden = histogram('+Inf', '+Inf', [0, '4', '+Inf', '+Inf'])
  assert.equal(difference('(waits * inf) >/ 1', shown, hidden, true), undefined)
  assert.equal(difference('(waits * inf) >/ 1', hidden, shown, true), undefined)
  assert.ok(difference('waits', shown, histogram('+Inf', '+Inf', [0, '4', '+Inf', '5']), true), 'its other buckets are not')
  assert.ok(difference('waits', histogram('NaN', 'NaN', [0, '4', '+Inf', '+Inf']), hidden, true), 'nor are they without such a bucket')
})

test('two samples of one series are an error of either text', () => {
  const own = failed('vector cannot contain metrics with the same labelset')
  assert.equal(difference('label_replace(mixed @ 1, "a", "", "b", "")', failed('unexpected number of samples'), own, true), undefined)
  assert.ok(difference('label_replace(mixed, "a", "", "b", "")', failed('another'), own, true))
  assert.ok(difference('label_replace(sizes @ 1, "a", "", "b", "")', failed('unexpected number of samples'), own, true))
})

test('labels with a colon are taken in groupings', () => {
  const refused = failed('invalid parameter "query": 1:9: parse error: invalid label name for grouping: "a:b"')
  assert.equal(difference('sum by (a:b) (x)', refused, vector(), true), undefined)
  assert.ok(difference('sum by (a:b) (x)', vector(), refused, true))
  assert.ok(difference('sum by ("") (x)', failed('invalid parameter "query": 1:9: parse error: invalid label name for grouping: ""'), vector(), true))
})

test('of several things that are wrong with the pairs of an operator any may be told', () => {
  const told = (...infos: string[]): Answer => ({ ...vector(), infos })
  const bounds = 'PromQL info: mismatched custom buckets were reconciled during subtraction (1:1)'
  const types = 'PromQL info: incompatible sample types encountered for binary operator "-": histogram - float (1:1)'
  const elsewhere = types.replace('1:1', '1:7')
  assert.equal(difference('x - y', told(bounds), told(bounds, types), true), undefined)
  assert.equal(difference('x - y', told(bounds, types), told(types), true), undefined)
  assert.ok(difference('x - y', told(bounds), told(types), true))
  assert.ok(difference('x - y', told(bounds), told(), true))
  assert.ok(difference('x - y', told(bounds), told(bounds, elsewhere), true))
})
