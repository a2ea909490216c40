/** label_replace and label_join: new labels for the same samples. */
import { compileRegex } from '../../../kernel/regex.ts'
import { ExecutionError } from '../errors.ts'
import type { VectorValue } from '../eval/value.ts'
import { type Labels, METRIC_NAME } from '../labels.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { withLabels } from './merge.ts'
import { stringArg, vectorArg } from './vectors.ts'

export const LABELS: Record<string, VectorFn> = { label_replace: labelReplace, label_join: labelJoin }

function labelReplace(call: VectorCall): VectorValue {
  const vector = vectorArg(call, 0)
  const [target, template, source, pattern] = [1, 2, 3, 4].map((i) => stringArg(call, i))
  const regex = read(pattern)
  checkName(target, 'destination', 'label_replace')
  const expand = compileTemplate(template)
  // Many series share few values: each is matched once.
  const made = new Map<string, string | undefined>()
  return relabel(vector, target, (labels) => {
    const from = labels.get(source)
    if (!made.has(from)) {
      const match = regex.exec(from)
      made.set(from, match === null ? undefined : expand(match))
    }
    return made.get(from)
  })
}

function labelJoin(call: VectorCall): VectorValue {
  const vector = vectorArg(call, 0)
  const target = stringArg(call, 1)
  const separator = stringArg(call, 2)
  const sources = call.args.slice(3).map((_, i) => stringArg(call, i + 3))
  for (const source of sources) checkName(source, 'source', 'label_join')
  checkName(target, 'destination', 'label_join')
  return relabel(vector, target, (labels) => sources.map((source) => labels.get(source)).join(separator))
}

/** Sets a label to what `make` says; undefined leaves a series as it is. A metric name that is set stays. */
function relabel(vector: VectorValue, target: string, make: (labels: Labels) => string | undefined): VectorValue {
  const dropName = vector.dropName?.slice()
  const list: Labels[] = []
  for (let i = 0; i < vector.labels.length; i++) {
    const labels = vector.labels.at(i)
    const value = make(labels)
    list.push(value === undefined ? labels : labels.with(target, value))
    if (value !== undefined && target === METRIC_NAME && dropName !== undefined) dropName[i] = 0
  }
  return withLabels(vector, list, dropName)
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
function compileTemplate(template: string): (match: RegExpExecArray) => string {
  const parts = [...template.matchAll(/\$(?:(\$)|([\p{L}\p{Nd}_]+)|\{([\p{L}\p{Nd}_]+)\})|[^$]+|\$/gu)].map(([text, dollar, bare, braced]) => {
    const name = bare ?? braced
    if (name !== undefined) return { group: /^(?:0|[1-9]\d*)$/.test(name) ? Number(name) : name }
    return { text: dollar === undefined ? text : '$' }
  })
  return (match) =>
    parts
      .map((part) => {
        if (part.group === undefined) return part.text
        return (typeof part.group === 'number' ? match[part.group] : Object.hasOwn(match.groups ?? {}, part.group) ? match.groups?.[part.group] : '') ?? ''
      })
      .join('')
}
