/** info(): adds the labels of info series (target_info by default) to the series of the same instance and job. */
import type { VectorSelector } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { type Budget, vectorBytes } from '../eval/context.ts'
import { SAME_LABELSET } from '../eval/finish.ts'
import { markDistinct } from '../eval/series-sets.ts'
import { ABSENT, HISTOGRAM, type VectorValue } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, type Labels, METADATA, METRIC_NAME } from '../labels.ts'
import type { VectorCall } from './contract.ts'
import { quote } from './format.ts'
import { infoReference } from './info-reference.ts'
import { IDENTIFYING, type InfoSelector, identifyingMatchers, infoSelector, textTest } from './info-selection.ts'
import { vectorArg } from './vectors.ts'

interface InfoSeries {
  labels: Labels
  /** Of the newest sample at each step, in ms; NaN where there is none. */
  times: Float64Array
}

/** By metric name, then by identifying labels: series with the same can follow each other in time. */
type InfoByOwner = ReadonlyMap<string, ReadonlyMap<string, readonly InfoSeries[]>>

export async function info(call: VectorCall): Promise<VectorValue> {
  const base = vectorArg(call, 0)
  const second = call.expr.args[1]
  const selector = infoSelector(second?.kind === 'vector' ? second.matchers : undefined)
  const own: Labels[] = []
  for (let i = 0; i < base.labels.length; i++) own.push(base.labels.at(i))
  // Info series themselves are left as they are.
  const isInfo = textTest(selector.names)
  const plain = own.map((labels) => isInfo(labels.get(METRIC_NAME)))
  const series = await readInfo(
    call,
    selector,
    own.filter((_, i) => !plain[i] && hasSample(base, i)),
  )
  return combine(call, base, own, plain, series, selector)
}

async function readInfo(call: VectorCall, selector: InfoSelector, series: readonly Labels[]): Promise<InfoByOwner> {
  const { pos } = call.expr
  const reference = infoReference(call.expr.args[0], call.query)
  const found = new Map<string, Map<string, InfoSeries[]>>()
  for (const identifying of identifyingMatchers(series)) {
    const read: VectorSelector = { kind: 'vector', name: '', matchers: [...identifying, ...selector.data, ...selector.names], offset: reference.offset, pos }
    if (reference.at !== undefined) read.at = reference.at
    const { value, times } = await call.instants(read)
    if (value.kinds.includes(HISTOGRAM)) throw new ExecutionError('info sample should be float')
    for (let i = 0; i < value.labels.length; i++) {
      const labels = value.labels.at(i)
      const name = labels.get(METRIC_NAME)
      let byOwner = found.get(name)
      if (byOwner === undefined) found.set(name, (byOwner = new Map()))
      const owner = ownerOf(labels)
      const list = byOwner.get(owner)
      const entry = { labels, times: times.subarray(i * value.steps, (i + 1) * value.steps) }
      if (list === undefined) byOwner.set(owner, [entry])
      else list.push(entry)
    }
  }
  return found
}

function ownerOf(labels: Labels): string {
  return IDENTIFYING.map((name) => labels.get(name)).join('\xff')
}

/** The one with the newest sample at a step. */
function newest(list: readonly InfoSeries[], step: number): InfoSeries | undefined {
  let best: InfoSeries | undefined
  for (const candidate of list) {
    const time = candidate.times[step]
    if (Number.isNaN(time)) continue
    if (best === undefined || time > best.times[step]) best = candidate
    else if (time === best.times[step]) {
      const existing = `${labelText(best.labels)} @ ${time}`
      throw new ExecutionError(`found duplicate series for info metric: existing ${existing}, new ${labelText(candidate.labels)} @ ${time}`)
    }
  }
  return best
}

function hasSample({ kinds, steps }: VectorValue, series: number): boolean {
  for (let cell = series * steps; cell < (series + 1) * steps; cell++) if (kinds[cell] !== ABSENT) return true
  return false
}

/** Also of owners that have no sample of their own: wherever there is any sample to be enriched. */
function refuseDuplicates({ kinds, steps }: VectorValue, series: InfoByOwner): void {
  const several = [...series.values()].flatMap((byOwner) => [...byOwner.values()].filter((list) => list.length > 1))
  if (several.length === 0) return
  const present = new Uint8Array(steps)
  for (let cell = 0; cell < kinds.length; cell++) if (kinds[cell] !== ABSENT) present[cell % steps] = 1
  for (let step = 0; step < steps; step++) if (present[step] === 1) for (const list of several) newest(list, step)
}

function labelText({ pairs }: Labels): string {
  const texts: string[] = []
  for (let i = 0; i < pairs.length; i += 2) texts.push(`${pairs[i]}=${quote(pairs[i + 1])}`)
  return `{${texts.join(', ')}}`
}

/** A row's label set, its key, and its place among the rows, about. */
const ROW_BYTES = 256

/** Each change of what is known of a series makes another row. */
class Rows {
  readonly labels: Labels[] = []
  readonly dropName: number[] = []
  private readonly values: Float64Array[] = []
  private readonly kinds: Uint8Array[] = []
  private readonly histograms: (FloatHistogram | undefined)[] = []
  private readonly byKey = new Map<string, number>()
  private readonly steps: number
  private readonly budget: Budget
  private held = 0

  constructor(steps: number, budget: Budget) {
    this.steps = steps
    this.budget = budget
  }

  row(labels: Labels, dropName: number): number {
    let row = this.byKey.get(labels.key)
    if (row !== undefined) return row
    const bytes = ROW_BYTES + vectorBytes(1, this.steps, false)
    this.budget.take(bytes)
    this.held += bytes
    this.byKey.set(labels.key, (row = this.labels.length))
    this.labels.push(labels)
    this.dropName.push(dropName)
    this.values.push(new Float64Array(this.steps))
    this.kinds.push(new Uint8Array(this.steps))
    return row
  }

  copy(from: VectorValue, cell: number, row: number, step: number): void {
    if (this.kinds[row][step] !== ABSENT) throw new ExecutionError(SAME_LABELSET)
    this.kinds[row][step] = from.kinds[cell]
    this.values[row][step] = from.values[cell]
    if (from.histograms !== undefined) this.histograms[row * this.steps + step] = from.histograms[cell]
  }

  /** What was counted in the budget is given back, for the value is counted by who gets it. */
  vector(histograms: boolean): VectorValue {
    this.budget.give(this.held)
    const cells = this.labels.length * this.steps
    const out: VectorValue = {
      type: 'vector',
      labels: markDistinct(new LabelList(this.labels)),
      steps: this.steps,
      values: new Float64Array(cells),
      kinds: new Uint8Array(cells),
      dropName: Uint8Array.from(this.dropName),
    }
    for (let row = 0; row < this.labels.length; row++) {
      out.values.set(this.values[row], row * this.steps)
      out.kinds.set(this.kinds[row], row * this.steps)
    }
    if (histograms) {
      this.histograms.length = cells
      out.histograms = this.histograms
    }
    return out
  }
}

async function combine(
  { pacer, budget }: VectorCall,
  base: VectorValue,
  own: readonly Labels[],
  plain: readonly boolean[],
  series: InfoByOwner,
  selector: InfoSelector,
): Promise<VectorValue> {
  const { steps } = base
  const wanted = selector.data.length === 0 ? undefined : new Set(selector.data.map(({ name }) => name))
  // Labels that must have a value cannot come from nowhere.
  const optional = textTest(selector.data)('')
  const rows = new Rows(steps, budget)
  refuseDuplicates(base, series)
  for (const [i, labels] of own.entries()) {
    const drop = base.dropName?.[i] ?? 0
    const owner = ownerOf(labels)
    const sources = plain[i] ? [] : [...series.values()].flatMap((byOwner) => [byOwner.get(owner) ?? []])
    const enriched = new Map<string, number>()
    for (let step = 0; step < steps; step++) {
      const cell = i * steps + step
      if (base.kinds[cell] === ABSENT) continue
      const found = sources.flatMap((list) => newest(list, step) ?? [])
      if (found.length === 0 && !plain[i] && !optional) continue
      const key = found.map((source) => source.labels.key).join('\xfe')
      let row = enriched.get(key)
      if (row === undefined) enriched.set(key, (row = rows.row(enrich(labels, found, wanted), drop)))
      rows.copy(base, cell, row, step)
    }
    if (pacer.due(steps * (1 + sources.length))) await pacer.pause()
  }
  return rows.vector(base.histograms !== undefined)
}

/** Labels that a series has already stay; two info series that disagree are an error. */
function enrich(labels: Labels, sources: readonly InfoSeries[], wanted: ReadonlySet<string> | undefined): Labels {
  const added = new Map<string, string>()
  for (const { labels: from } of sources) {
    for (let i = 0; i < from.pairs.length; i += 2) {
      const name = from.pairs[i]
      const value = from.pairs[i + 1]
      if (METADATA.has(name) || (wanted !== undefined && !wanted.has(name))) continue
      const known = added.get(name)
      if (known !== undefined && known !== value) throw new ExecutionError(`conflicting label: ${name}`)
      if (!labels.has(name)) added.set(name, value)
    }
  }
  let out = labels
  for (const [name, value] of added) out = out.with(name, value)
  return out
}
