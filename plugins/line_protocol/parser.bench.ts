/** Rows and bytes a second through the parser on one core: node plugins/line_protocol/parser.bench.ts [rows] */
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { FakeResolver } from 'svcdb/testkit'
import { DEFAULT_LIMITS } from './limits.ts'
import { LineParser } from './parser.ts'

const HOSTS = 1000
const ROWS_PER_BODY = 10_000
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `usage_${f}`)
const rowsWanted = Number(process.argv[2] ?? 2_000_000)

/** Bodies shaped like TSBS' cpu-only devops data: 10 tags, 10 fields, one row a host every 10 s. */
function bodies(value: () => string, order: (step: number, i: number) => number): Buffer[] {
  const regions = ['us-east-1', 'us-west-1', 'eu-west-1', 'eu-central-1', 'ap-southeast-1', 'sa-east-1']
  const keys = Array.from({ length: HOSTS }, (_, i) => {
    const region = regions[i % regions.length]
    return `cpu,hostname=host_${i},region=${region},datacenter=${region}${'abc'[i % 3]},rack=${i % 100},os=Ubuntu16.04LTS,arch=x64,team=SF,service=${i % 20},service_version=${i % 2},service_environment=production`
  })
  return Array.from({ length: 20 }, (_, body) => {
    const lines: string[] = []
    for (let i = 0; i < ROWS_PER_BODY; i++) {
      const step = body * (ROWS_PER_BODY / HOSTS) + Math.floor(i / HOSTS)
      lines.push(`${keys[order(step, i % HOSTS)]} ${FIELDS.map((f) => `${f}=${value()}`).join(',')} ${1451606400 + step * 10}000000000\n`)
    }
    return Buffer.from(lines.join(''))
  })
}

function run(name: string, input: Buffer[]): void {
  const resolver = new FakeResolver()
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 28, maxFailures: 16, seed: 7 })
  const batch = new WriteBatch(resolver)
  let rows = 0
  let bytes = 0
  const parse = (body: Buffer) => {
    const outcome = atOnce(parser.parse(body, batch, { precision: 'ns', now: 0n, maxPoints: 1_000_000 }))
    if (outcome.rejected > 0) throw new Error(outcome.failures[0].message)
    batch.reset()
    rows += outcome.rows
    bytes += body.length
  }
  for (const body of input) parse(body)
  rows = bytes = 0
  const start = process.hrtime.bigint()
  for (let i = 0; rows < rowsWanted; i++) parse(input[i % input.length])
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  console.log(
    `${name.padEnd(34)} ${Math.round(rows / seconds)
      .toLocaleString('en')
      .padStart(10)} rows/s ${(bytes / seconds / 1e6).toFixed(0).padStart(5)} MB/s`,
  )
}

let state = 1
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
const inOrder = (_: number, i: number) => i
run(
  'integers',
  bodies(() => String(Math.floor(random() * 101)), inOrder),
)
run(
  'two decimals',
  bodies(() => (random() * 100).toFixed(2), inOrder),
)
run(
  '17 digits',
  bodies(() => String(random() * 100 + random() * 1e-9), inOrder),
)
run(
  'integers, hosts in random order',
  bodies(
    () => String(Math.floor(random() * 101)),
    () => Math.floor(random() * HOSTS),
  ),
)
run(
  'integers with suffix',
  bodies(() => `${Math.floor(random() * 101)}i`, inOrder),
)
