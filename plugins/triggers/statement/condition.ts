/** Conditions: comparisons of fields with numbers and of tags with texts, joined by AND and OR. */
import { type Literal, literalOf, MAX_LITERAL } from './literal.ts'
import type { Scanner } from './scanner.ts'

export type FieldOperator = '=' | '<>' | '<' | '<=' | '>' | '>='
export type TagOperator = '=' | '<>'

interface FieldComparison {
  kind: 'field'
  field: string
  operator: FieldOperator
  literal: Literal
}

interface TagComparison {
  kind: 'tag'
  tag: string
  operator: TagOperator
  value: string
}

export type Condition = FieldComparison | TagComparison | { kind: 'and'; parts: readonly Condition[] } | { kind: 'or'; parts: readonly Condition[] }

interface ConditionLimits {
  maxComparisons: number
  maxDepth: number
}

/** Words that end or join conditions: as a name they are quoted. */
export const RESERVED: ReadonlySet<string> = new Set(['CREATE', 'TRIGGER', 'ON', 'WHEN', 'AND', 'OR', 'NOT', 'DELIVER', 'COOLDOWN', 'INTERVAL'])

const COMPARISON = 'a comparison such as usage > 90 or host = \'a\', or "("'

export class ConditionParser {
  private readonly scanner: Scanner
  private readonly limits: ConditionLimits
  private comparisons = 0

  constructor(scanner: Scanner, limits: ConditionLimits) {
    this.scanner = scanner
    this.limits = limits
  }

  /** @throws BAD_REQUEST */
  parse(depth = 0): Condition {
    return this.joined('or', () => this.joined('and', () => this.primary(depth)))
  }

  private joined(kind: 'and' | 'or', part: () => Condition): Condition {
    const parts: Condition[] = []
    do {
      const next = part()
      if (next.kind === kind) parts.push(...next.parts)
      else parts.push(next)
    } while (this.scanner.keyword(kind.toUpperCase()))
    return parts.length === 1 ? parts[0] : { kind, parts }
  }

  private primary(depth: number): Condition {
    const { scanner } = this
    if (!scanner.symbol('(')) return this.comparison()
    if (depth >= this.limits.maxDepth) {
      throw scanner.refuse(`at most ${this.limits.maxDepth} parentheses within one another`, 'triggers.max_condition_depth is the limit', scanner.at - 1)
    }
    const inner = this.parse(depth + 1)
    if (!scanner.symbol(')')) throw scanner.refuse('AND, OR or ")"')
    return inner
  }

  private comparison(): Condition {
    const { scanner } = this
    const name = scanner.name()
    if (name === undefined) throw scanner.refuse(COMPARISON)
    if (!name.quoted && RESERVED.has(name.text.toUpperCase())) {
      const word = name.text.toUpperCase()
      throw scanner.refuse(
        COMPARISON,
        word === 'NOT' ? 'there is no NOT: turn the comparison round' : 'a name that is a keyword stands in double quotes',
        name.at,
      )
    }
    if (name.text === '') throw scanner.refuse('the name of a field or a tag', undefined, name.at)
    const operator = scanner.operator()
    if (operator === undefined) throw scanner.refuse('=, <>, <, <=, > or >=', name.quoted ? undefined : 'a name with other characters stands in double quotes')
    if (operator.text === '!=' || operator.text === '==') {
      throw scanner.refuse('=, <>, <, <=, > or >=', operator.text === '!=' ? 'unequal is <>' : 'equal is =', operator.at)
    }
    if (++this.comparisons > this.limits.maxComparisons) {
      throw scanner.refuse(`at most ${this.limits.maxComparisons} comparisons`, 'triggers.max_comparisons is the limit', name.at)
    }
    const text = scanner.string()
    if (text !== undefined) {
      if (operator.text !== '=' && operator.text !== '<>') {
        throw scanner.refuse('= or <>', 'a text is compared with a tag, by = and <> only; a number for a field stands without quotes', operator.at)
      }
      return { kind: 'tag', tag: name.text, operator: operator.text, value: text.text }
    }
    const number = scanner.number()
    if (number === undefined) throw scanner.refuse('a number for a field, or a text in single quotes for a tag', "such as usage > 90, host = 'a'")
    const literal = number.text.length > MAX_LITERAL ? undefined : literalOf(number.text)
    if (literal === undefined) throw scanner.refuse(`a number of at most ${MAX_LITERAL} characters below 1.8e308`, undefined, number.at)
    return { kind: 'field', field: name.text, operator: operator.text as FieldOperator, literal }
  }
}

/** The fields of which a row must have one for the condition to hold; undefined = tags alone may do. */
export function fieldsOf(condition: Condition): string[] | undefined {
  switch (condition.kind) {
    case 'field':
      return [condition.field]
    case 'tag':
      return undefined
    case 'and': {
      const parts = condition.parts.map(fieldsOf)
      return parts.every((part) => part === undefined) ? undefined : namesOf(condition)
    }
    case 'or':
      return condition.parts.some((part) => fieldsOf(part) === undefined) ? undefined : namesOf(condition)
  }
}

function namesOf(condition: Condition): string[] {
  if (condition.kind === 'field') return [condition.field]
  return condition.kind === 'tag' ? [] : condition.parts.flatMap(namesOf)
}

const BARE = /^[A-Za-z_][A-Za-z0-9_.:]*$/

export function nameText(name: string): string {
  return BARE.test(name) && !RESERVED.has(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`
}

export const stringText = (value: string): string => `'${value.replaceAll("'", "''")}'`

/** As it would be written: read again, it is the same condition. */
export function conditionText(condition: Condition): string {
  switch (condition.kind) {
    case 'field':
      return `${nameText(condition.field)} ${condition.operator} ${condition.literal.text}`
    case 'tag':
      return `${nameText(condition.tag)} ${condition.operator} ${stringText(condition.value)}`
    case 'and':
      return condition.parts.map((part) => (part.kind === 'or' ? `(${conditionText(part)})` : conditionText(part))).join(' AND ')
    case 'or':
      return condition.parts.map(conditionText).join(' OR ')
  }
}
