/** Conditions of the triggers on one measurement, taken apart: each comparison is there once, whoever has it. */
import type { Condition, FieldOperator, TagOperator } from '../statement/condition.ts'
import type { Literal } from '../statement/literal.ts'

interface FieldAtom {
  /** Index in `Program.fields`. */
  field: number
  operator: FieldOperator
  literal: Literal
  /** Atoms of the field whose rows are among this one's whenever they hold, the strictest first. */
  looser: readonly number[]
}

interface TagAtom {
  tag: string
  operator: TagOperator
  value: string
}

export type Node =
  | { kind: 'field'; atom: number }
  | { kind: 'tag'; atom: number }
  | { kind: 'and'; parts: readonly Node[] }
  | { kind: 'or'; parts: readonly Node[] }

export interface Program {
  fields: readonly string[]
  fieldAtoms: readonly FieldAtom[]
  tagAtoms: readonly TagAtom[]
  /** Of each trigger, in the order given. */
  roots: readonly Node[]
  /** Triggers that a series must have a tag for, and the others; those with loose comparisons first. */
  tagged: readonly number[]
  untagged: readonly number[]
}

/** Comparisons between two yields. */
const ATOMS = 256
const UP: ReadonlySet<FieldOperator> = new Set(['>', '>='])
const DOWN: ReadonlySet<FieldOperator> = new Set(['<', '<='])

/** Yields where it may be interrupted: there may be tens of thousands of comparisons. */
export function* compile(conditions: readonly Condition[]): Generator<void, Program, void> {
  const fields = new Map<string, number>()
  const fieldAtoms: { key: string; atom: Omit<FieldAtom, 'looser'> }[] = []
  const fieldAtomOf = new Map<string, number>()
  const tagAtoms: TagAtom[] = []
  const tagAtomOf = new Map<string, number>()

  const node = (condition: Condition): Node => {
    if (condition.kind === 'and' || condition.kind === 'or') return { kind: condition.kind, parts: condition.parts.map(node) }
    if (condition.kind === 'tag') {
      const { tag, operator, value } = condition
      return { kind: 'tag', atom: indexIn(tagAtomOf, JSON.stringify([tag, operator, value]), () => tagAtoms.push({ tag, operator, value }) - 1) }
    }
    const { field, operator, literal } = condition
    const key = JSON.stringify([field, operator, `${literal.unscaled}`, literal.scale])
    const at = indexIn(fields, field, () => fields.size)
    return { kind: 'field', atom: indexIn(fieldAtomOf, key, () => fieldAtoms.push({ key, atom: { field: at, operator, literal } }) - 1) }
  }

  const roots: Node[] = []
  for (const condition of conditions) {
    roots.push(node(condition))
    yield
  }
  const atoms = yield* withLooser(fieldAtoms.map(({ atom }) => atom))
  const order = roots.map((root, i) => ({ i, place: atoms[driverOf(root) ?? -1]?.looser.length ?? -1 })).sort((a, b) => a.place - b.place)
  const inOrder = order.map(({ i }) => i)
  return {
    fields: [...fields.keys()],
    fieldAtoms: atoms,
    tagAtoms,
    roots,
    tagged: inOrder.filter((i) => needsTag(roots[i], tagAtoms)),
    untagged: inOrder.filter((i) => !needsTag(roots[i], tagAtoms)),
  }
}

function indexIn(known: Map<string, number>, key: string, add: () => number): number {
  let index = known.get(key)
  if (index === undefined) known.set(key, (index = add()))
  return index
}

/** What exceeds 20 exceeds 10: the rows of an atom are looked for among those of the next looser one. */
function* withLooser(atoms: readonly Omit<FieldAtom, 'looser'>[]): Generator<void, FieldAtom[], void> {
  const chains = new Map<string, number[]>()
  for (const [i, { field, operator }] of atoms.entries()) {
    const direction = UP.has(operator) ? 'up' : DOWN.has(operator) ? 'down' : undefined
    if (direction !== undefined) indexList(chains, `${field} ${direction}`).push(i)
  }
  const looser: (readonly number[])[] = atoms.map(() => [])
  for (const [name, chain] of chains) {
    const sign = name.endsWith('up') ? 1 : -1
    yield
    chain.sort((a, b) => sign * (atoms[a].literal.value - atoms[b].literal.value))
    for (const [place, i] of chain.entries()) {
      // At most some: a list each would be of the square of their number.
      const before = chain.slice(Math.max(0, place - 64), place).filter((j) => atoms[j].literal.value !== atoms[i].literal.value)
      looser[i] = before.toReversed()
      if (place % ATOMS === ATOMS - 1) yield
    }
  }
  return atoms.map((atom, i) => ({ ...atom, looser: looser[i] }))
}

function indexList(lists: Map<string, number[]>, key: string): number[] {
  let list = lists.get(key)
  if (list === undefined) lists.set(key, (list = []))
  return list
}

/** A field comparison that must hold. */
function driverOf(root: Node): number | undefined {
  if (root.kind === 'field') return root.atom
  if (root.kind !== 'and') return undefined
  for (const part of root.parts) if (part.kind === 'field') return part.atom
  return undefined
}

function needsTag(root: Node, atoms: readonly TagAtom[]): boolean {
  const isEqual = (node: Node): boolean => node.kind === 'tag' && atoms[node.atom].operator === '='
  return isEqual(root) || (root.kind === 'and' && root.parts.some(isEqual))
}
