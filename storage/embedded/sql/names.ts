/**
 * Names: as DuckDB compares them, and as DuckDB is given them.
 *
 * No text of a caller or a writer stands in a statement as the name of a relation, an alias or a column. Each name, folded, gets a generated one for the
 * statement, always the same: DuckDB's rules of scope, which only ask whether names are equal, then find what they would have found, and nothing that the
 * statement did not bring along: no file, no view of DuckDB's catalogue, no virtual column, no function without parentheses.
 */
import { refuse } from './ast.ts'

/**
 * A name for comparison: only the letters of ASCII lose their case, as in DuckDB. JavaScript's own folding would take U+212A (the sign of the kelvin) for
 * a `k`, and so find a name where DuckDB finds none and goes on to look for a file.
 */
export function foldName(name: string): string {
  return /[A-Z]/.test(name) ? name.replace(/[A-Z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 32)) : name
}

const STEM = 'column'
const LIKE_GENERATED = /column(x*)_\d/gi
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Words that DuckDB quotes where it makes up the name of an expression. */
const QUOTED = new Set(
  `all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default deferrable desc describe distinct do else
  end except false fetch for foreign from group having in initially intersect into lambda lateral leading limit not null offset on only or order pivot
  pivot_longer pivot_wider placing primary qualify references returning select show some summarize symmetric table then to trailing true union unique unpivot
  using variadic when where window with between bigint bit boolean char character coalesce dec decimal exists extract float grouping grouping_id inout int
  integer interval national nchar none nullif numeric out overlay position precision real row setof smallint substring time timestamp treat trim values
  varchar`.split(/\s+/),
)

export class Names {
  /** Does not occur in the statement, so that what looks like a generated name is one. */
  private readonly stem: string
  private readonly generated: RegExp
  private readonly numbers = new Map<string, number>()
  /** By number: how the name has been written. */
  private readonly spellings: string[][] = []

  /** @param text of the statement. */
  constructor(text: string) {
    const taken = new Set(Array.from(text.matchAll(LIKE_GENERATED), ([, longer]) => longer.length))
    let stem = STEM
    while (taken.has(stem.length - STEM.length)) stem += 'x'
    this.stem = stem
    this.generated = new RegExp(`(${stem})_(\\d+)`, 'gi')
  }

  /** The generated name. Spellings of one name differ in case alone, so that an answer's columns are spelled as DuckDB would choose to. */
  of(name: string): string {
    const folded = foldName(name)
    let number = this.numbers.get(folded)
    if (number === undefined) this.numbers.set(folded, (number = this.spellings.push([]) - 1))
    const spellings = this.spellings[number]
    let spelling = spellings.indexOf(name)
    if (spelling < 0) spelling = spellings.push(name) - 1
    if (spelling >> this.stem.length > 0) throw refuse(`cannot run this query: the name "${name}" is spelled in more ways than can be kept apart`)
    const stem = spelling === 0 ? this.stem : Array.from(this.stem, (letter, i) => ((spelling >> i) & 1 ? letter.toUpperCase() : letter)).join('')
    return `${stem}_${number}`
  }

  list(names: readonly string[]): string {
    return names.length === 0 ? '' : `(${names.map((name) => this.of(name)).join(', ')})`
  }

  /** All names so far, as first spelled. */
  all(): string[] {
    return this.spellings.map(([first]) => first)
  }

  /** A text of DuckDB's with the public names in place of the generated ones. */
  publicText(text: string, write: (name: string) => string = (name) => name): string {
    return text.replace(this.generated, (whole, stem: string, number: string) => {
      let spelling = 0
      for (let i = 0; i < stem.length; i++) if (stem[i] !== this.stem[i]) spelling |= 1 << i
      const name = this.spellings[Number(number)]?.[spelling]
      return name === undefined ? whole : write(name)
    })
  }

  /** The public name of a column of an answer: a name, or what DuckDB calls an expression. */
  publicColumn(name: string): string {
    const alone = name.match(this.generated)?.[0].length === name.replace(/(?<=_\d+)_\d+$/, '').length
    return this.publicText(name, alone ? undefined : quotedIfNeeded)
  }
}

/** As DuckDB writes a name within what it calls an expression. */
export function quotedIfNeeded(name: string): string {
  return PLAIN_NAME.test(name) && !QUOTED.has(foldName(name)) ? name : `"${name.replaceAll('"', '""')}"`
}
