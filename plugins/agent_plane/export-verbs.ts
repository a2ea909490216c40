/** `svc plane export` and `verify --file`: journals and cases in a file that can be checked where the store is not. */
import type { CommandCall, StateReader } from 'svcdb'
import { DEFAULT_TENANT } from 'svcdb/agents'
import { fileLines } from 'svcdb/lib/files'
import { caseIds, caseOf } from './cases/case-store.ts'
import { holdOf } from './cases/holds.ts'
import { checkpointOf, leafOf } from './log/log.ts'
import { originOf } from './operate/cases.ts'
import { canonical } from './record/canonical.ts'
import { instant } from './record/names.ts'
import { BrokenChain, CHAIN_START, type Sealed, verified } from './record/record.ts'
import { headOf, recordsOf } from './store/journal.ts'
import { statusOf } from './store/runs.ts'

const OK = 0
const NEGATIVE = 1
const UNVERIFIABLE = 6
const PAGE = 500
const EXPORT_VERSION = 1
const MAX_FAULTS = 100

/** Lines of JSON: a header, for each run its block and its records, for each case its block, and a trailer with what there is. */
export async function exportStore({ out, err, flags }: CommandCall, state: StateReader, only: string | undefined): Promise<number> {
  const line = (value: object) => out(`${JSON.stringify(value)}\n`)
  const tenant = flags.tenant ?? DEFAULT_TENANT
  const counts = { runs: 0, records: 0, cases: 0 }
  if (only !== undefined && (await headOf(state, only)).seq === 0) {
    err(`svc: cannot find run ${JSON.stringify(only.slice(0, 64))}: there is none; check the id, and --tenant\n`)
    return NEGATIVE
  }
  line({ kind: 'svc.export', v: EXPORT_VERSION, tenant, at: instant(Date.now()), log: await checkpointOf(state, originOf(tenant)) })
  const cases = new Set<string>()
  for await (const run of only === undefined ? runsIn(state) : [only]) {
    const { seq, hash, case: matter } = await headOf(state, run)
    if (matter !== undefined) cases.add(matter)
    line({ kind: 'run', run, status: await statusOf(state, run), records: seq, hash, leaf: (await leafOf(state, run)) ?? null })
    counts.runs++
    let previous = CHAIN_START
    for (const [index, { raw, hash: own }] of (await recordsOf(state, run)).slice(0, seq).entries()) {
      // Nobody signs records: who has the hash of the last one, or a checkpoint of the log, has them all.
      counts.records++
      line({ seq: index + 1, body: JSON.parse(raw), prev_hash: previous, hash: own, signature: null, raw })
      previous = own
    }
  }
  for await (const id of only === undefined ? casesIn(state) : cases) {
    line({ kind: 'case', case: await caseOf(state, id), hold: (await holdOf(state, id)) ?? null })
    counts.cases++
  }
  line({ kind: 'trailer', ...counts })
  return OK
}

async function* runsIn(state: StateReader): AsyncGenerator<string> {
  for (let start = 'head/'; ; ) {
    const page = await state.list({ prefix: 'head/', start, limit: PAGE })
    for (const { key } of page) yield key.slice('head/'.length)
    if (page.length < PAGE) return
    start = `${page[page.length - 1].key}\0`
  }
}

async function* casesIn(state: StateReader): AsyncGenerator<string> {
  for (let after: string | undefined; ; ) {
    const page = await caseIds(state, after, PAGE)
    yield* page
    if (page.length < PAGE) return
    after = page[page.length - 1]
  }
}

/** @returns 6 for a file of which not all can be checked, or that says something else than was written. */
export async function verifyFile({ out, err }: CommandCall, file: string): Promise<number> {
  const check = new ExportCheck()
  try {
    for await (const text of fileLines(file)) check.line(text)
  } catch (error) {
    throw new Error(`cannot read export "${file}": ${(error as Error).message}`)
  }
  check.end()
  const { counts, faults } = check
  for (const fault of faults.slice(0, MAX_FAULTS)) err(`broken: ${fault}\n`)
  out(`${counts.runs} runs, ${counts.records} records, ${counts.cases} cases: ${faults.length === 0 ? 'whole' : `${faults.length} faults`}\n`)
  return faults.length === 0 ? OK : UNVERIFIABLE
}

/** A run of the file, with what its line says of it and the records that follow. */
interface RunLines {
  run: string
  records: number
  hash: string
  sealed: Sealed[]
}

// biome-ignore lint/suspicious/noExplicitAny: whatever is in the file; each member is looked at
type Line = any

/** Looks at an export line by line: a header, runs each with its records, cases, a trailer that counts them. */
class ExportCheck {
  readonly faults: string[] = []
  readonly counts = { runs: 0, records: 0, cases: 0 }
  private number = 0
  private ended = false
  private run: RunLines | undefined

  line(text: string): void {
    this.number++
    let value: Line
    try {
      value = JSON.parse(text)
    } catch {
      return this.fault('it is not JSON')
    }
    if (this.number === 1) {
      if (value?.kind !== 'svc.export' || value.v !== EXPORT_VERSION) this.fault(`it is no header of an export of version ${EXPORT_VERSION}`)
    } else if (this.ended) this.fault('it stands behind the trailer')
    else if (typeof value?.raw === 'string') this.record(value)
    else this.other(value)
  }

  end(): void {
    this.endRun()
    if (this.number === 0) this.faults.push('it is empty')
    else if (!this.ended) this.faults.push('it ends without its trailer: it was cut')
  }

  private record(value: Line): void {
    this.counts.records++
    this.run?.sealed.push({ raw: value.raw, hash: String(value.hash) })
    if (this.run === undefined) this.fault('a record stands in no run')
    if (value.prev_hash !== (this.run?.sealed.at(-2)?.hash ?? CHAIN_START)) this.fault('it names another hash before it')
    if (canonicalOf(value.body) !== value.raw) this.fault('its body is another one than its text')
  }

  private other(value: Line): void {
    this.endRun()
    if (value?.kind === 'run') {
      this.counts.runs++
      this.run = { run: String(value.run), records: value.records, hash: String(value.hash), sealed: [] }
    } else if (value?.kind === 'case') this.counts.cases++
    else if (value?.kind === 'trailer') {
      this.ended = true
      for (const [name, count] of Object.entries(this.counts)) if (value[name] !== count) this.fault(`it says ${value[name]} ${name}, and there are ${count}`)
    } else this.fault('it is nothing that an export has')
  }

  private endRun(): void {
    if (this.run === undefined) return
    const { run, records, hash, sealed } = this.run
    this.run = undefined
    try {
      verified(run, sealed, { seq: records, hash })
    } catch (error) {
      if (!(error instanceof BrokenChain)) throw error
      this.faults.push(error.message)
    }
  }

  private fault(why: string): void {
    this.faults.push(`line ${this.number}: ${why}`)
  }
}

function canonicalOf(body: unknown): string | undefined {
  try {
    return canonical(body)
  } catch {
    return undefined
  }
}
