/**
 * Random queries over the data of `data.ts`: every operator, modifier, aggregation and function of PromQL, mostly well-typed.
 *
 * What depends on the order of series, in which servers may differ, is wrapped so that the answer does not: of topk, bottomk and limitk
 * only aggregates are taken, except at the top, where their labels are not compared (`labelsMatter`).
 */
import type { Random } from '../../../kernel/lib/random/index.ts'
import { type Part, part } from './query.ts'

const FLOATS = [
  'temperature',
  'humidity',
  'requests_total',
  'requests_total',
  'latency_count',
  'latency_sum',
  'latency_bucket',
  'volume',
  'free',
  'limit',
  'target_info',
  'mixed',
]
const HISTOGRAMS = ['sizes', 'depth', 'waits', 'mixed']
const MATCHERS = [
  'job="api"',
  'job!="api"',
  'instance=~"host-[01]"',
  'instance!~".*2"',
  'code="200"',
  'code=""',
  'zone=~"a|b"',
  'zone="ä"',
  'le="+Inf"',
  'job=~".+"',
  '__type__="gauge"',
  '__unit__!=""',
]
/** Written in ways of their own: quotes, escapes, regular expressions of RE2, some of which do not exist. */
const ODD_MATCHERS = [
  ...["job='api'", 'job=`api`', 'zone="\\u00e4"', "zone='\\xc3\\xa4'", '"job"="web"', 'job=~"(?i)API"', 'job=~"a.i|w\\\\w+"', 'job=~"[[:lower:]]{3}"'],
  ...[
    'instance=~"host-\\\\d"',
    'job=~"^api$"',
    'job!~"ap?i|"',
    'zone=~"\\\\pL"',
    'zone=~"[^ab]"',
    'instance=~"(?P<n>host)-[0-1]+?"',
    'job=~"(?s).*"',
    'code=~"|2.."',
  ],
  ...['job=~"("', 'job=~"a**"', 'job=~"(?=a)"', 'job=~"a{1001}"', 'job=~"[z-a]"', 'job=~"\\\\8"', 'job=~"x\\\\"', 'job="\\z"', 'job=~""', 'job=~".*",zone=""'],
]
const LABELS = ['job', 'instance', 'zone', 'code', 'le', 'version', '"raum.nr"', 'raum.nr', '__type__', '__unit__']
const DURATIONS = ['30s', '1m', '2m', '5m', '7m30s', '10m', '90', '1s', '15s', '20m', '1m1s500ms']
const RESOLUTIONS = ['', '', '10s', '15s', '1m', '97s', '5m', '20']
const MATH = 'abs ceil floor sqrt exp ln log2 log10 sgn deg rad sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh'.split(' ')
const DATES = 'year month day_of_month day_of_week day_of_year days_in_month hour minute'.split(' ')
const OVER_TIME = 'avg min max sum count last first stddev stdvar present absent mad ts_of_first ts_of_last ts_of_min ts_of_max'.split(' ')
const RATES = 'rate increase delta irate idelta deriv resets'.split(' ')
const EXTENDED = { anchored: ['rate', 'increase', 'delta', 'changes', 'resets'], smoothed: ['rate', 'increase', 'delta'] } as const
const OF_HISTOGRAMS = 'histogram_count histogram_sum histogram_avg histogram_stddev histogram_stdvar'.split(' ')
const AGGREGATIONS = 'sum avg min max count group stddev stdvar'.split(' ')
const ARITHMETIC = ['+', '-', '*', '/', '%', '^', 'atan2', '+', '-', '*', '/']
const COMPARISONS = ['==', '!=', '<', '<=', '>', '>=']
const NUMBERS = [
  '.5',
  '1E+2',
  '0b11',
  '0o17',
  '1e-7',
  '+2',
  '1h30m',
  '5ms',
  'inf',
  'nan',
  '0',
  '1',
  '2',
  '-1',
  '0.5',
  '10',
  '100',
  '1e3',
  '0x1F',
  'Inf',
  '-Inf',
  'NaN',
  '3.25',
  '1_000',
  '5m',
]
const QUANTILES = ['0', '0.1', '0.5', '0.9', '1', '-1', '2', 'NaN', 'scalar(limit)']
/** Not inside of an aggregation over all that they leave. */
const FREE = /(?<!\b(?:sum|count|min|max)\()\b(?:topk|bottomk|limitk)\b/

/** Whether answers to the query have to have the same labels, and not just the same values. */
export const labelsMatter = (query: string): boolean => !FREE.test(query)

export class Grammar {
  private readonly random: Random
  /** Seconds, for `@`. */
  private readonly from: number
  private readonly to: number

  constructor(random: Random, fromMs: number, toMs: number) {
    this.random = random
    this.from = fromMs / 1000
    this.to = toMs / 1000
  }

  query(): Part {
    const depth = 1 + this.below(4)
    const roll = this.random()
    if (roll < 0.04) return this.scalar(depth)
    if (roll < 0.08) return this.ordered(depth)
    if (roll < 0.12) return this.sorted(depth)
    return this.vector(depth)
  }

  private below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  private chance(share: number): boolean {
    return this.random() < share
  }

  private pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]
  }

  private option(share: number, make: () => (string | Part)[]): Part {
    return part('option', ...(this.chance(share) ? make() : []))
  }

  private labels(): string {
    const list = LABELS.filter(() => this.chance(0.35))
    return list.join(', ')
  }

  private duration(): string {
    if (!this.chance(0.06)) return this.pick(DURATIONS)
    return this.pick([
      'step()',
      '(step() * 2 + 1m)',
      'max_of(1m, step())',
      'min_of(step(), 5m)',
      '(1m + 30s)',
      '(2m / 2)',
      '(range() / 4 + 1m)',
      '(7 % 4 + 30)',
      '(2 ^ 6)',
    ])
  }

  private modifiers(): Part {
    const offset = () => part('option', ` offset ${this.chance(0.25) ? '-' : ''}${this.duration()}`)
    const at = () => part('option', ` @ ${this.pick(['start()', 'end()', String(this.from + this.below(this.to - this.from)), `${this.from}.25`])}`)
    if (this.chance(0.75)) return part('option')
    return this.pick([() => part('option', offset()), () => part('option', at()), () => part('option', at(), offset()), () => part('option', offset(), at())])()
  }

  private selectorHead(metrics: readonly string[], several = true): (string | Part)[] {
    if (this.chance(0.02)) {
      const [open, label] = this.pick([
        ['{"büro.temp"', ', "raum.nr"'],
        ['büro.temp{', 'raum.nr'],
      ])
      return [open, this.option(0.4, () => [label, this.pick(['="1"', '!="1"', '=~"2.*"'])]), '}']
    }
    if (several && this.chance(0.03)) return ['{__name__=~"latency_(count|sum)"', this.option(0.4, () => [`, ${this.pick(MATCHERS)}`]), '}']
    const matcher = () => this.pick(this.chance(0.1) ? ODD_MATCHERS : MATCHERS)
    const matchers = () => ['{', matcher(), this.option(0.25, () => [`, ${matcher()}`]), part('option', this.chance(0.03) ? ',' : ''), '}']
    return [this.pick(metrics), this.option(0.3, matchers)]
  }

  private selector(metrics: readonly string[]): Part {
    const smoothed = this.chance(0.02) ? ' smoothed' : ''
    return part('vector', ...this.selectorHead(metrics), part('option', smoothed), this.modifiers())
  }

  private range(depth: number, metrics = this.metrics()): Part {
    if (depth > 0 && this.chance(0.2)) return part('range', this.wrapped(depth - 1), '[', this.duration(), ':', this.pick(RESOLUTIONS), ']', this.modifiers())
    // Of one metric, as a function drops the name: which series take the name's place in a union depends on which comes first.
    return part('range', ...this.selectorHead(metrics, false), '[', this.duration(), ']', this.modifiers())
  }

  private metrics(): readonly string[] {
    return this.chance(0.18) ? HISTOGRAMS : FLOATS
  }

  private scalar(depth: number): Part {
    if (depth <= 0 || this.chance(0.5))
      return part('scalar', this.chance(0.9) ? this.pick(NUMBERS) : this.pick(['time()', 'pi()', 'step()', 'range()', 'start()', 'end()']))
    return this.pick([
      () => part('scalar', 'scalar(', this.vector(depth - 1), ')'),
      () => part('scalar', '(', this.scalar(depth - 1), ` ${this.pick(ARITHMETIC)} `, this.scalar(depth - 1), ')'),
      () => part('scalar', '(', this.scalar(depth - 1), ` ${this.pick(COMPARISONS)} bool `, this.scalar(depth - 1), ')'),
      () => part('scalar', this.pick(['max_of', 'min_of']), '(', this.scalar(depth - 1), ', ', this.scalar(depth - 1), ')'),
      () => part('scalar', '-', this.scalar(depth - 1)),
    ])()
  }

  /** A vector that can stand before `[`, an operator or a modifier. */
  private wrapped(depth: number): Part {
    return this.chance(0.5) ? part('vector', '(', this.vector(depth), ')') : this.call(depth)
  }

  private vector(depth: number): Part {
    if (depth <= 0 || this.chance(0.1)) return this.selector(this.metrics())
    const roll = this.random()
    if (roll < 0.3) return this.call(depth)
    if (roll < 0.55) return this.aggregation(depth)
    if (roll < 0.9) return this.binary(depth)
    if (roll < 0.95) return part('vector', '-', this.wrapped(depth - 1))
    return part('vector', '(', this.vector(depth - 1), ')')
  }

  private call(depth: number): Part {
    const vector = () => this.vector(depth - 1)
    const scalar = () => this.scalar(depth - 1)
    const of = (name: string, ...args: (string | Part)[]) => part('vector', `${name}(`, ...args.flatMap((arg, i) => (i === 0 ? [arg] : [', ', arg])), ')')
    const roll = this.random()
    if (roll < 0.3) return this.rate(depth)
    if (roll < 0.5) return of(`${this.pick(OVER_TIME)}_over_time`, this.range(depth - 1))
    if (roll < 0.65) return this.histogramCall(depth)
    return this.pick([
      () => of(this.pick(MATH), vector()),
      () => of('clamp', vector(), scalar(), scalar()),
      () => of(this.pick(['clamp_min', 'clamp_max']), vector(), scalar()),
      () => of('round', vector(), ...(this.chance(0.5) ? [scalar()] : [])),
      () => of(this.pick(DATES), vector()),
      () => part('vector', `${this.pick(DATES)}()`),
      // Prometheus forgets the offset of a selector in it that has an `@` too.
      () =>
        of(
          'timestamp',
          this.chance(0.5)
            ? part(
                'vector',
                ...this.selectorHead(this.metrics()),
                this.option(0.2, () => [` offset ${this.duration()}`]),
              )
            : this.call(depth - 1),
        ),
      () => of('absent', vector()),
      () => of('vector', scalar()),
      () => of('quantile_over_time', this.pick(QUANTILES), this.range(depth - 1)),
      () => of('integral', this.range(depth - 1), ...(this.chance(0.6) ? [this.pick(['0', '1', '2', '3', 'scalar(limit)'])] : [])),
      () => of('predict_linear', this.range(depth - 1), this.pick(['60', '3600', '-30'])),
      () => of('double_exponential_smoothing', this.range(depth - 1), this.pick(['0.3', '0.5', '1']), this.pick(['0.1', '0.9', '0'])),
      () => of('label_replace', vector(), '"host"', '"n-$1"', '"instance"', this.pick(['"host-(.*)"', '"(.*)"', '"host-(?P<n>[01])"', '"("'])),
      () => of('label_replace', vector(), this.pick(['"job"', '"__name__"', '"instance"']), this.pick(['"x$1"', '""']), '"job"', '"(a|w).*"'),
      () => of('label_join', vector(), '"both"', '"/"', '"job"', '"instance"'),
      () =>
        of(
          this.pick(['info', 'info']),
          vector(),
          ...(this.chance(0.5) ? [this.pick(['{version=~".+"}', '{region="a"}', '{__name__="target_info"}', '{version!="1.1"}'])] : []),
        ),
    ])()
  }

  private rate(depth: number): Part {
    if (this.chance(0.12)) {
      const modifier = this.pick(['anchored', 'smoothed'] as const)
      return part('vector', this.pick(EXTENDED[modifier]), '(', ...this.selectorHead(FLOATS), `[${this.duration()}] ${modifier}`, this.modifiers(), ')')
    }
    return part(
      'vector',
      this.pick(RATES),
      '(',
      this.range(depth - 1, this.chance(0.6) ? ['requests_total', 'latency_bucket', 'sizes', 'waits'] : this.metrics()),
      ')',
    )
  }

  private histogramCall(depth: number): Part {
    const classic = () =>
      part(
        'vector',
        'sum by (le',
        part('option', this.pick(['', ', job', ', instance'])),
        ') (rate(latency_bucket',
        part('option', this.pick(['', '{job="api"}'])),
        '[5m]))',
      )
    const buckets = () => (this.chance(0.5) ? classic() : this.chance(0.5) ? this.selector(['latency_bucket']) : this.histograms(depth - 1))
    return this.pick([
      () => part('vector', this.pick(OF_HISTOGRAMS), '(', this.histograms(depth - 1), ')'),
      () => part('vector', 'histogram_quantile(', this.pick(QUANTILES), ', ', buckets(), ')'),
      () =>
        part('vector', 'histogram_fraction(', this.pick(['0', '-Inf', '0.3', '-1']), ', ', this.pick(['1', '2', 'Inf', '0.5', 'NaN']), ', ', buckets(), ')'),
      () => part('vector', 'histogram_quantiles(', buckets(), ', "q", 0.25, ', this.pick(QUANTILES), ')'),
    ])()
  }

  /** Native histograms, as they are or after something that keeps them so. */
  private histograms(depth: number): Part {
    const histograms = () => this.histograms(depth - 1)
    if (depth <= 0 || this.chance(0.3)) return this.selector(HISTOGRAMS)
    return this.pick([
      () =>
        part(
          'vector',
          this.pick(['rate', 'increase', 'delta', 'irate', 'last_over_time', 'avg_over_time', 'sum_over_time']),
          '(',
          this.range(0, HISTOGRAMS),
          ')',
        ),
      () => part('vector', this.pick(['sum', 'avg']), this.grouping(), ' (', histograms(), ')'),
      () => part('vector', '(', histograms(), ` ${this.pick(['*', '/'])} `, this.scalar(0), ')'),
      () => part('vector', '(', histograms(), ` ${this.pick(['+', '-', '==', '!='])} `, histograms(), ')'),
      () => part('vector', '(', histograms(), ` ${this.pick(['</', '>/'])} `, this.pick(['1', '0.7', '-0.5', '0']), ')'),
    ])()
  }

  private grouping(): Part {
    return this.option(0.6, () => [` ${this.pick(['by', 'without', 'BY', 'Without'])} (${this.labels()}${this.chance(0.03) ? ',' : ''})`])
  }

  private aggregation(depth: number): Part {
    const vector = () => this.vector(depth - 1)
    const roll = this.random()
    if (roll < 0.55) return part('vector', this.pick(AGGREGATIONS), this.grouping(), ' (', vector(), ')')
    if (roll < 0.65) return part('vector', this.pick(AGGREGATIONS), ' (', vector(), ')', this.grouping())
    if (roll < 0.75) return part('vector', 'quantile', this.grouping(), ' (', this.pick(QUANTILES), ', ', vector(), ')')
    // The text of a value shows its last digit, which may depend on the order of series.
    if (roll < 0.85) {
      const counted = this.chance(0.4) ? this.selector(this.metrics()) : part('vector', 'round(clamp(', vector(), ', -1e6, 1e6), 0.25)')
      return part('vector', 'count_values', this.grouping(), ' ("value", ', counted, ')')
    }
    if (roll < 0.9) return part('vector', 'limit_ratio(', this.pick(['1', '-1', '0.5', '-0.5', '1.5']), ', ', vector(), ')')
    return part('vector', this.pick(['sum', 'count', 'min', 'max']), '(', this.ordered(depth), ')')
  }

  private ordered(depth: number): Part {
    const limit = () => part('scalar', this.pick(['1', '2', '3', '100', '0', '-1', '2.9', 'scalar(limit)']))
    const name = this.pick(['topk', 'bottomk', 'limitk'])
    // Which series limitk keeps is free, so only their number counts.
    if (name === 'limitk') return part('vector', 'count(limitk', this.grouping(), ' (', limit(), ', ', this.vector(depth - 1), '))')
    return part('vector', name, this.grouping(), ' (', limit(), ', ', this.vector(depth - 1), ')')
  }

  private sorted(depth: number): Part {
    if (this.chance(0.5)) return part('vector', this.pick(['sort', 'sort_desc']), '(', this.vector(depth - 1), ')')
    return part(
      'vector',
      this.pick(['sort_by_label', 'sort_by_label_desc']),
      '(',
      this.vector(depth - 1),
      ', ',
      this.pick(['"zone"', '"code"', '"le"', '"raum.nr"', '"__name__"']),
      ', "instance")',
    )
  }

  private matching(many: boolean): Part {
    if (this.chance(0.25)) return part('option')
    const labels = this.pick(['job', 'job, instance', 'instance', 'job, instance, code', '', 'zone'])
    const by = this.chance(0.7) ? `on (${labels})` : `ignoring (${this.pick(['code', 'zone', 'zone, code', 'le', 'code, le, zone, version, region'])})`
    const group = many && this.chance(0.35) ? ` ${this.pick(['group_left', 'group_right'])} (${this.pick(['', 'version', 'zone', 'code'])})` : ''
    const fills = ['fill(0)', 'fill_left(1)', 'fill_right(-2)', 'fill_left(1) fill_right(2)']
    const fill = many && this.chance(0.12) ? ` ${this.pick(fills)}` : ''
    return part('option', ` ${by}`, part('option', group), part('option', fill))
  }

  private binary(depth: number): Part {
    const vector = () => (this.chance(0.6) ? this.wrapped(depth - 1) : this.vector(depth - 1))
    const roll = this.random()
    if (roll < 0.2) return part('vector', vector(), ` ${this.pick(ARITHMETIC)} `, this.scalar(depth - 1))
    if (roll < 0.3) return part('vector', this.scalar(depth - 1), ` ${this.pick(ARITHMETIC)} `, vector())
    const bool = () => this.option(0.3, () => [' bool'])
    if (roll < 0.42) return part('vector', vector(), ` ${this.pick(COMPARISONS)}`, bool(), ' ', this.scalar(depth - 1))
    if (roll < 0.57) return part('vector', vector(), ` ${this.pick(COMPARISONS)}`, bool(), this.matching(true), ' ', vector())
    if (roll < 0.72) return part('vector', vector(), ` ${this.pick(['and', 'or', 'unless'])}`, this.matching(false), ' ', vector())
    // Labels that fit are rare by chance alone: both sides of one metric.
    if (roll < 0.8) {
      const metric = this.pick([...FLOATS, ...HISTOGRAMS])
      return part('vector', metric, this.modifiers(), ` ${this.pick(ARITHMETIC)} `, metric, this.modifiers())
    }
    return part('vector', vector(), ` ${this.pick(ARITHMETIC)}`, this.matching(true), ' ', vector())
  }
}
