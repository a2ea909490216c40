/**
 * Regular expressions in RE2's syntax, as conditions and label_replace take them, as JavaScript's. What RE2 does not have
 * (lookaround, back references) is refused, so that an expression means the same to every engine.
 */
import { SvcError } from '../errors/index.ts'

const MAX_PATTERN = 16_384
/**
 * What an expression may cost V8 to compile, which nothing interrupts: a class of Unicode has some hundred ranges, and what is counted or optional is looked through again for
 * each before it. Found by trying: an expression of so much takes up to a second.
 */
const MAX_COST = 1000
const COST = { property: 10, set: 2, counted: 2, optional: 1 }
const POSIX: Record<string, string> = {
  alnum: '0-9A-Za-z',
  alpha: 'A-Za-z',
  ascii: '\\x00-\\x7F',
  blank: '\\t ',
  cntrl: '\\x00-\\x1F\\x7F',
  digit: '0-9',
  graph: '!-~',
  lower: 'a-z',
  print: ' -~',
  punct: '!-\\/:-@\\[-`\\{-~',
  space: '\\t\\n\\v\\f\\r ',
  upper: 'A-Z',
  word: '0-9A-Za-z_',
  xdigit: '0-9A-Fa-f',
}
/** Escapes that mean the same in both syntaxes. */
const SHARED_ESCAPES = 'dDwWbBfnrtvpPx'

/**
 * Fully anchored, `.` matches newline.
 * @param captures keep the groups and their names; without them matching is cheaper.
 * @throws BAD_REQUEST for a regular expression that does not parse.
 */
export function compileRegex(pattern: string, captures = false): RegExp {
  if (pattern.length > MAX_PATTERN) throw refuse(pattern, `it is longer than ${MAX_PATTERN} characters`)
  try {
    return new RegExp(`^(?:${translate(pattern, captures)})$`, 'su')
  } catch (error) {
    if (error instanceof SvcError) throw error
    // V8 repeats the translated pattern in its text; the cause stands after the last colon.
    throw refuse(pattern, (error as Error).message.split(': ').at(-1) ?? 'it does not parse')
  }
}

function translate(pattern: string, captures: boolean): string {
  let out = ''
  // `(?i)` holds to the end of its group, JavaScript only knows `(?i:...)`: for each group how many it opened, to be closed with it, and
  // what they come to, which its next alternative begins with.
  const flagged: Flagged[] = [newFlagged(0)]
  let cost = 0
  /** Before the last item, which a repetition is of. */
  let before = 0
  const spend = (units: number): void => {
    cost += units
    if (cost > MAX_COST) throw refuse(pattern, 'it would take too long to compile; use fewer classes such as "\\pL", and repeat less with "{n}" and "?"')
  }
  for (let i = 0; i < pattern.length; ) {
    const c = pattern[i]
    if (c !== ')' && !/[*+?{}]/.test(c)) before = cost
    if (c === '\\') {
      const [text, next] = escapeSequence(pattern, i, false)
      spend(costOfEscape(pattern[i + 1]))
      out += text === '\\b' || text === '\\B' ? `(?:${text})` : text
      i = next
    } else if (c === '^' || c === '$') {
      // Only a group around it may be repeated in JavaScript.
      out += /^[*+?{]/.test(pattern.slice(i + 1)) ? `(?:${c})` : c
      i++
    } else if (c === '[') {
      const [text, next] = charClass(pattern, i, spend)
      out += text
      i = next
    } else if (c === '(') {
      const flags = /^\(\?([imsU]*)(?:-([imsU]+))?([:)])/.exec(pattern.slice(i))
      const name = /^\(\?P?<([A-Za-z_]\w*)>/.exec(pattern.slice(i))
      if (flags !== null) {
        // U swaps greedy and lazy, which only a reader of groups could tell.
        if (captures && flags[0].includes('U')) throw refuse(pattern, 'the flag U is not supported')
        const on = flagLetters(flags[1])
        const off = flagLetters(flags[2] ?? '')
        const open = on === '' && off === '' ? '(?:' : `(?${on}${off === '' ? '' : `-${off}`}:`
        out += open
        if (flags[3] === ')') {
          const { set } = flagged[flagged.length - 1]
          flagged[flagged.length - 1].opened++
          for (const letter of on) set.set(letter, true)
          for (const letter of off) set.set(letter, false)
        } else flagged.push(newFlagged(cost))
        i += flags[0].length
      } else {
        if (name === null && pattern[i + 1] === '?') throw refuse(pattern, `"${pattern.slice(i, i + 3)}" is not supported`)
        out += captures ? (name === null ? '(' : `(?<${name[1]}>`) : '(?:'
        flagged.push(newFlagged(cost))
        i += name === null ? 1 : name[0].length
      }
    } else if (c === ')') {
      if (flagged.length === 1) throw refuse(pattern, 'unmatched ")"')
      const group = flagged.pop() as Flagged
      before = group.cost
      out += `${closed(group)})`
      i++
    } else if (c === '|') {
      const group = flagged[flagged.length - 1]
      out += `${closed(group)}|${opening(group.set)}`
      group.opened = group.set.size === 0 ? 0 : 1
      i++
    } else if (c === ']' || c === '}' || (c === '{' && !/^\{\d+(,\d*)?\}/.test(pattern.slice(i)))) {
      out += `\\${c}`
      i++
    } else if (c === '{') {
      const end = pattern.indexOf('}', i) + 1
      // V8 writes the item out, more than once where the item does so itself.
      spend(COST.counted + cost - before)
      out += pattern.slice(i, end)
      i = end
    } else {
      // Behind another repetition it makes that lazy.
      if (c === '?' && !/[*+?}]/.test(pattern[i - 1])) spend(COST.optional)
      out += c
      i++
    }
  }
  if (flagged.length > 1) throw refuse(pattern, 'missing closing ")"')
  return out + closed(flagged[0])
}

/** What flags that hold to the end of a group have opened in it, and which of them are on or off. */
interface Flagged {
  opened: number
  set: Map<string, boolean>
  /** Spent before it. */
  cost: number
}

const newFlagged = (cost: number): Flagged => ({ opened: 0, set: new Map(), cost })

function closed({ opened }: Flagged): string {
  return ')'.repeat(opened)
}

function opening(set: ReadonlyMap<string, boolean>): string {
  if (set.size === 0) return ''
  const letters = (wanted: boolean): string => [...set].flatMap(([letter, on]) => (on === wanted ? letter : [])).join('')
  const off = letters(false)
  return `(?${letters(true)}${off === '' ? '' : `-${off}`}:`
}

/** As JavaScript has them: each once. */
function flagLetters(letters: string): string {
  return [...new Set(letters.replaceAll('U', ''))].join('')
}

/** @param kind the letter behind the backslash. */
function costOfEscape(kind: string | undefined): number {
  if (kind === 'p' || kind === 'P') return COST.property
  return kind === 'w' || kind === 'W' ? COST.set : 0
}

/** @returns the translated escape that starts at `at`, and where it ends. */
function escapeSequence(pattern: string, at: number, inClass: boolean): [string, number] {
  const c = pattern[at + 1]
  if (c === undefined) throw refuse(pattern, 'a backslash ends it')
  if (c === 'Q' && !inClass) {
    const end = pattern.indexOf('\\E', at + 2)
    const literal = end < 0 ? pattern.slice(at + 2) : pattern.slice(at + 2, end)
    return [literal.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), end < 0 ? pattern.length : end + 2]
  }
  if (c === 'A' && !inClass) return ['(?-m:^)', at + 2]
  if (c === 'z' && !inClass) return ['(?-m:$)', at + 2]
  if (c === 'a') return ['\\x07', at + 2]
  // RE2's \s has no vertical tab and no Unicode spaces.
  if (c === 's') return [inClass ? '\\t\\n\\f\\r ' : '[\\t\\n\\f\\r ]', at + 2]
  if (c === 'S') return [inClass ? '\\x00-\\x08\\x0B\\x0E-\\x1F!-\\u{10FFFF}' : '[^\\t\\n\\f\\r ]', at + 2]
  const property = /^\\([pP])([A-Z])/.exec(pattern.slice(at))
  if (property !== null) return [`\\${property[1]}{${property[2]}}`, at + 3]
  const script = /^\\([pP])\{(\^?)([A-Za-z_]+)\}/.exec(pattern.slice(at))
  if (script !== null) {
    const kind = script[3].length > 2 && script[3] !== 'Any' ? `Script=${script[3]}` : script[3]
    const letter = (script[1] === 'P') === (script[2] === '^') ? 'p' : 'P'
    return [`\\${letter}{${kind}}`, at + script[0].length]
  }
  const octal = /^\\(0[0-7]{0,2}|[1-7][0-7]{1,2})/.exec(pattern.slice(at))
  if (octal !== null) return [`\\u{${Number.parseInt(octal[1], 8).toString(16)}}`, at + octal[0].length]
  const hex = /^\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/.exec(pattern.slice(at))
  if (hex !== null) return [`\\u{${hex[1] ?? hex[2]}}`, at + hex[0].length]
  if (SHARED_ESCAPES.includes(c)) return [`\\${c}`, at + 2]
  if (/[0-9A-Za-z]/.test(c)) throw refuse(pattern, `"\\${c}" is not supported`)
  const code = pattern.codePointAt(at + 1) as number
  return [`\\u{${code.toString(16)}}`, at + 1 + String.fromCodePoint(code).length]
}

function charClass(pattern: string, start: number, spend: (units: number) => void): [string, number] {
  let i = start + 1
  let out = '['
  const sets = new Set<string>()
  if (pattern[i] === '^') {
    out += '^'
    i++
  }
  for (let first = true; ; first = false) {
    const c = pattern[i]
    if (c === undefined) throw refuse(pattern, 'missing closing "]"')
    if (c === ']' && !first) return [`${out}]`, i + 1]
    const posix = /^\[:(\^?)([a-z]+):\]/.exec(pattern.slice(i))
    if (posix !== null) {
      const set = POSIX[posix[2]]
      if (set === undefined || posix[1] !== '') throw refuse(pattern, `"${posix[0]}" is not supported`)
      out += set
      i += posix[0].length
    } else if (c === '\\') {
      const isSet = 'dDsSwWpP'.includes(pattern[i + 1] ?? '-')
      const [text, next] = escapeSequence(pattern, i, true)
      // V8 takes up to half a millisecond for each.
      if (!isSet || !sets.has(text)) {
        spend(costOfEscape(pattern[i + 1]))
        out += text
      }
      if (isSet) sets.add(text)
      i = next
      // After a set a dash is itself, which JavaScript wants said.
      if (isSet && pattern[i] === '-') {
        out += '\\-'
        i++
      }
    } else {
      out += c === '[' || c === ']' ? `\\${c}` : c
      i++
    }
  }
}

function refuse(pattern: string, cause: string): SvcError {
  const shown = pattern.length > 64 ? `${pattern.slice(0, 61)}...` : pattern
  return new SvcError('BAD_REQUEST', `cannot read regular expression "${shown.toWellFormed()}": ${cause}`)
}
