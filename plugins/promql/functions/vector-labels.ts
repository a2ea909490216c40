/** label_replace and label_join: new labels for the same samples. */
import { compileRegex, REGEX_TIMEOUT_MS, withinTime } from 'svcdb/lib/regex'
import type { Expr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import type { Budget } from '../eval/context.ts'
import { labelNames, markDistinct } from '../eval/series-sets.ts'
import type { VectorValue } from '../eval/value.ts'
import { type LabelColumn, type LabelSets, type Labels, METRIC_NAME } from '../labels.ts'
import type { VectorCall, VectorFunction } from './contract.ts'
import { withLabels } from './merge.ts'
import { stringArg, vectorArg } from './vectors.ts'

export const labelReplace: VectorFunction = {
  kind: 'vector',
  check({ args }) {
    read(literal(args[4]))
    checkName(literal(args[1]), 'destination', 'label_replace')
  },
  apply: replace,
}

export const labelJoin: VectorFunction = {
  kind: 'vector',
  check({ args }) {
    for (const source of args.slice(3)) checkName(literal(source), 'source', 'label_join')
    checkName(literal(args[1]), 'destination', 'label_join')
  },
  apply: join,
}

function literal(arg: Expr): string {
  return arg.kind === 'string' ? arg.value : ''
}

const POINTER_BYTES = 8
/** Texts that one look at the clock is for; each such lot of them has the time of an expression. */
const LOT = 4096

async function replace(call: VectorCall): Promise<VectorValue> {
  const vector = vectorArg(call, 0)
  const [target, template, source, pattern] = [1, 2, 3, 4].map((i) => stringArg(call, i))
  const regex = read(pattern)
  const expand = compileTemplate(template)
  const { codes, texts } = vector.labels.column(source)
  // Many series share few values: each is matched once. What follows the last is for series without the label.
  const given = [...texts, '']
  const made: (string | undefined)[] = []
  let held = 0
  for (let first = 0; first < given.length; first += LOT) {
    const lot = given.slice(first, first + LOT)
    const matches = withinTime(regex, REGEX_TIMEOUT_MS, () => lot.map((text) => regex.exec(text)), pattern)
    for (const match of matches) {
      const text = match === null ? undefined : joined(expand(match), '', call.budget)
      call.budget.take(text?.length ?? 0)
      held += text?.length ?? 0
      made.push(text)
    }
    if (call.pacer.due(LOT)) await call.pacer.pause()
  }
  call.budget.give(held)
  return relabel(call, vector, target, (series) => made[codes[series] < 0 ? texts.length : codes[series]])
}

function join(call: VectorCall): Promise<VectorValue> {
  const vector = vectorArg(call, 0)
  const target = stringArg(call, 1)
  const separator = stringArg(call, 2)
  const sources = call.args.slice(3).map((_, i) => stringArg(call, i + 3))
  const columns = columnsOf(vector.labels, sources)
  const partsOf = (series: number): string[] =>
    columns.map((column) => (column === undefined || column.codes[series] < 0 ? '' : column.texts[column.codes[series]]))
  return relabel(call, vector, target, (series) => joined(partsOf(series), separator, call.budget), sources.length)
}

/** Each label's column is made once; of labels that no series has there is none. */
function columnsOf(labels: LabelSets, names: readonly string[]): (LabelColumn | undefined)[] {
  const known = new Map<string, LabelColumn>()
  const wanted = new Set(names)
  for (const name of labelNames(labels)) if (wanted.has(name)) known.set(name, labels.column(name))
  return names.map((name) => known.get(name))
}

/** The parts as one text, refused before it is made when the budget has no room for it. */
function joined(parts: readonly string[], separator: string, budget: Budget): string {
  let length = separator.length * Math.max(0, parts.length - 1)
  for (const part of parts) length += part.length
  budget.take(length)
  budget.give(length)
  return parts.join(separator)
}

/** Sets a label to what `make` says; undefined leaves a series as it is. A metric name that is set stays. @param cells that making one is about. */
async function relabel(
  { pacer, budget }: VectorCall,
  vector: VectorValue,
  target: string,
  make: (series: number) => string | undefined,
  cells = 1,
): Promise<VectorValue> {
  const { labels } = vector
  const old = labels.column(target)
  // Labels of labels hold their columns until the query's end, as they do texts.
  budget.take(old.codes.byteLength)
  const codes = old.codes.slice()
  const texts: string[] = []
  const known = new Map<string, number>([['', -1]])
  const keepsName = target === METRIC_NAME ? vector.dropName?.slice() : undefined
  for (let i = 0; i < codes.length; i++) {
    if (pacer.due(cells)) await pacer.pause()
    const value = make(i)
    if (value === undefined) continue
    if (keepsName !== undefined) keepsName[i] = 0
    let code = known.get(value)
    if (code === undefined) {
      // Labels may hold it until the query's end.
      budget.take(value.length)
      known.set(value, (code = old.texts.length + texts.length))
      texts.push(value)
    }
    codes[i] = code
  }
  if (texts.length > 0) budget.take((old.texts.length + texts.length) * POINTER_BYTES)
  const column = { codes, texts: texts.length === 0 ? old.texts : [...old.texts, ...texts] }
  const changed = new WithColumn(labels, target, column)
  // A label that was not there before makes no two series the same.
  if (labels.distinct && old.codes.every((code) => code < 0)) markDistinct(changed)
  return withLabels(vector, changed, keepsName ?? vector.dropName)
}

/** The series of another set with one label of their own. */
class WithColumn implements LabelSets {
  distinct = false
  readonly length: number
  private readonly base: LabelSets
  private readonly name: string
  private readonly own: LabelColumn

  constructor(base: LabelSets, name: string, column: LabelColumn) {
    this.base = base
    this.name = name
    this.own = column
    this.length = base.length
  }

  at(i: number): Labels {
    const { codes, texts } = this.own
    return this.base.at(i).with(this.name, codes[i] < 0 ? '' : texts[codes[i]])
  }

  column(name: string): LabelColumn {
    return name === this.name ? this.own : this.base.column(name)
  }

  names(): readonly string[] {
    return [...new Set([...labelNames(this.base), this.name])]
  }
}

function read(pattern: string): RegExp {
  try {
    return compileRegex(pattern, true)
  } catch {
    throw new ExecutionError(`invalid regular expression in label_replace(): ${pattern}`)
  }
}

function checkName(name: string, role: 'source' | 'destination', where: string): void {
  if (name === '' || !name.isWellFormed()) throw new ExecutionError(`invalid ${role} label name in ${where}(): ${name}`)
}

/** `$1`, `${1}`, `$name`, `${name}` and `$$`; a group there is not is empty, a `$` before anything else stays. */
function compileTemplate(template: string): (match: RegExpExecArray) => string[] {
  const parts = [...template.matchAll(/\$(?:(\$)|([\p{L}\p{Nd}_]+)|\{([\p{L}\p{Nd}_]+)\})|[^$]+|\$/gu)].map(([text, dollar, bare, braced]) => {
    const name = bare ?? braced
    if (name !== undefined) return { group: /^(?:0|[1-9]\d*)$/.test(name) ? Number(name) : name }
    return { text: dollar === undefined ? text : '$' }
  })
  return (match) =>
    parts.map((part) => {
      if (part.group === undefined) return part.text
      return (typeof part.group === 'number' ? match[part.group] : Object.hasOwn(match.groups ?? {}, part.group) ? match.groups?.[part.group] : '') ?? ''
    })
}
