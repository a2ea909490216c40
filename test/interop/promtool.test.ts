/** promtool: queries print what they print for Prometheus, and pushed metrics arrive. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { seeded } from '../../kernel/lib/random/index.ts'
import { noPrometheus } from './prometheus.ts'
import { vector } from './promql/compare.ts'
import { END_MS, startPair } from './promql/pair.ts'
import { missing } from './service.ts'

const skip = noPrometheus || missing('promtool')
const END = END_MS / 1000
const run = promisify(execFile)

const pair = skip === false ? await startPair(seeded(7)) : undefined

/** What it prints, and how it ends, with an order of lines that no server has to keep. */
async function promtool(url: string, args: readonly string[]): Promise<{ code: number; lines: string[] }> {
  const all = args.map((arg) => (arg === '{server}' ? url : arg))
  const { stdout, stderr, code } = await run('promtool', all).then(
    (out) => ({ ...out, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => error,
  )
  return { code, lines: `${stdout}${stderr}`.replaceAll(url, '').split('\n').sort() }
}

const at = `--time=${END - 600}`
const range = [`--start=${END - 1200}`, `--end=${END}`, '--step=1m']
const COMMANDS: readonly (readonly string[])[] = [
  ['query', 'instant', at, '{server}', 'requests_total'],
  ['query', 'instant', at, '{server}', 'sum by (job) (rate(requests_total[5m]))'],
  ['query', 'instant', at, '{server}', 'sizes'],
  ['query', 'instant', at, '{server}', 'waits'],
  ['query', 'instant', at, '{server}', '1 + 2'],
  ['query', 'instant', at, '{server}', '"text"'],
  ['query', 'instant', at, '-o', 'json', '{server}', 'scalar(limit)'],
  ['query', 'instant', at, '{server}', 'sum(nothing'],
  ['query', 'instant', at, '{server}', 'requests_total + on (job) temperature'],
  ['query', 'range', ...range, '{server}', 'requests_total{job="api"}'],
  ['query', 'range', ...range, '{server}', 'round(histogram_quantile(0.9, rate(sizes[5m])), 0.001)'],
  ['query', 'range', ...range, '{server}', 'rate(depth[5m])'],
  ['query', 'range', ...range, '{server}', 'requests_total['],
  ['query', 'series', '--match=requests_total{code="500"}', '--match={__name__=~"latency_(sum|count)"}', `--start=${END - 1200}`, `--end=${END}`, '{server}'],
  ['query', 'series', '--match=nothing', `--start=${END - 1200}`, `--end=${END}`, '{server}'],
  ['query', 'series', '--match={}', `--start=${END - 1200}`, `--end=${END}`, '{server}'],
  ['query', 'labels', `--start=${END - 1200}`, `--end=${END}`, '{server}', 'zone'],
  ['query', 'labels', `--start=${END - 1200}`, `--end=${END}`, '{server}', '__name__'],
  ['query', 'labels', `--start=${END - 1200}`, `--end=${END}`, '--match=requests_total', '{server}', 'code'],
  ['query', 'labels', `--start=${END - 1200}`, `--end=${END}`, '{server}', 'nothing'],
]

for (const command of COMMANDS) {
  test(`promtool ${command.filter((word) => !/^--(start|end|time|step)=/.test(word)).join(' ')}`, { skip }, async () => {
    assert.deepEqual(await promtool(pair!.node, command), await promtool(pair!.prometheus, command))
  })
}

test('promtool check healthy, check ready', { skip }, () => {
  for (const what of ['healthy', 'ready']) {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', what, `--url=${pair!.node}`], { encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    assert.match(`${stdout}${stderr}`, /SUCCESS/)
  }
})

// Not its other protobuf message: under the name of that it sends this one, which is no fault of a receiver.
test('promtool push metrics', { skip }, async () => {
  const name = 'pushed'
  const metrics = `# HELP ${name} Pushed.\n# TYPE ${name} gauge\n${name}{a="ä b"} 1.5\n${name}{a="c"} -2\n`
  const path = '--remote-write.path=/api/v1/prom/write'
  const { status, stdout, stderr } = spawnSync('promtool', ['push', 'metrics', path, pair!.node], {
    input: metrics,
    encoding: 'utf8',
  })
  assert.equal(status, 0, `${stdout}${stderr}`)
  assert.deepEqual(await vector(pair!.node, `sort(${name})`, Date.now() / 1000 + 1), [
    { metric: { __name__: name, a: 'c', job: 'promtool' }, value: -2 },
    { metric: { __name__: name, a: 'ä b', job: 'promtool' }, value: 1.5 },
  ])
})
