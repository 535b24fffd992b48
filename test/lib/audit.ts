// Accessibility checks of the page: problems for users of a keyboard, a screen reader or a small screen. The text runs in the
// browser; it returns one line per problem.

export const AUDIT = String.raw`(() => {
  const faults = []
  const all = selector => [...document.querySelectorAll(selector)]
  const visible = node => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })
  const name = node => node.tagName.toLowerCase() + (node.id ? '#' + node.id : '') + (typeof node.className === 'string' && node.className ? '.' + node.className.split(' ')[0] : '') + ' "' + (node.textContent || '').trim().slice(0, 30) + '"'

  // names
  const label = node => {
    const byId = (node.getAttribute('aria-labelledby') || '').split(' ').map(id => document.getElementById(id)?.textContent || '').join(' ')
    const labels = node.labels ? [...node.labels].map(one => one.textContent).join(' ') : ''
    const own = ['BUTTON', 'A', 'SUMMARY'].includes(node.tagName) ? node.textContent : ''
    const images = [...node.querySelectorAll('img')].map(one => one.alt).join(' ')
    return [node.getAttribute('aria-label'), byId, labels, own, images].join('').trim()
  }
  for (const node of all('a[href], button, input, select, textarea, summary'))
    if (visible(node) && label(node) === '') faults.push('no name: ' + name(node))
  // voice control users say the visible text, so the label must contain it
  for (const node of all('a[aria-label], button[aria-label]').filter(visible)) {
    const read = node.innerText.trim().toLowerCase()
    if (/^[a-z]/.test(read) && !node.getAttribute('aria-label').toLowerCase().includes(read)) faults.push('not called what it says: ' + name(node))
  }
  for (const node of all('img')) if (!node.hasAttribute('alt')) faults.push('no alt: ' + name(node))
  for (const node of all('[role=img]')) if (!node.getAttribute('aria-label')) faults.push('no name: ' + name(node))
  for (const node of all('[aria-describedby], [aria-controls], label[for]'))
    for (const id of [node.getAttribute('aria-describedby'), node.getAttribute('aria-controls'), node.getAttribute('for')].filter(Boolean).flatMap(ids => ids.split(' ')))
      if (!document.getElementById(id)) faults.push('names the id ' + id + ' that is not there: ' + name(node))
  const ids = all('[id]').map(node => node.id)
  for (const id of new Set(ids.filter((id, k) => ids.indexOf(id) !== k))) faults.push('id used twice: ' + id)

  // structure
  for (const [selector, count] of [['h1', 1], ['main', 1], ['body header', 1]])
    if (all(selector).filter(visible).length !== count) faults.push(all(selector).length + ' of ' + selector)
  let level = 0
  for (const node of all('h1, h2, h3, h4').filter(visible)) {
    const next = Number(node.tagName[1])
    if (next > level + 1) faults.push('heading skips a level: ' + name(node))
    level = next
  }
  for (const node of all('[tabindex]')) if (node.tabIndex > 0) faults.push('tabindex over 0: ' + name(node))
  for (const node of all('table')) if (!node.closest('[role=img]')) if (!node.querySelector('th[scope]')) faults.push('table without headers: ' + name(node))
  for (const node of all('ul, ol')) for (const child of node.children) if (child.tagName !== 'LI') faults.push('no li: ' + name(child))

  // space
  if (document.documentElement.scrollWidth > innerWidth) {
    faults.push('wider than the screen: ' + document.documentElement.scrollWidth)
    for (const node of all('main *')) if (node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.scroll, .screen, .u-wrap')) faults.push('  ' + name(node))
  }
  for (const node of all('button, nav a, select, input').filter(visible)) {
    const { width, height } = node.getBoundingClientRect()
    const inText = node.closest('.hex, .pager, .linklike')
    if (!inText && node.type !== 'checkbox' && (width < 24 || height < 24)) faults.push('too small to touch: ' + name(node) + ' ' + Math.round(width) + ' x ' + Math.round(height))
  }

  // contrast
  const parse = text => {
    const numbers = text.match(/[\d.]+/g).map(Number)
    return text.startsWith('color(') ? [...numbers.slice(0, 3).map(n => n * 255), numbers[3] ?? 1] : [numbers[0], numbers[1], numbers[2], numbers[3] ?? 1]
  }
  const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat(1)
  const background = node => {
    const layers = []
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor))
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1])
  }
  const light = ([r, g, b]) => {
    const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
  }
  const seen = new Set()
  for (const node of all('body *')) {
    if (node.closest('svg, canvas, noscript, script, [disabled]') || !visible(node)) continue
    if (![...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim() !== '')) continue
    let opacity = 1
    for (let at = node; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity)
    const style = getComputedStyle(node)
    const below = background(node)
    const colour = parse(style.color)
    colour[3] *= opacity
    const [a, b] = [light(over(colour, below)), light(below)]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize)
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 600)
    if (ratio < (large ? 3 : 4.5)) seen.add('contrast ' + ratio.toFixed(2) + ': ' + name(node))
  }
  for (const node of all('input[placeholder]').filter(visible)) {
    const [a, b] = [light(over(parse(getComputedStyle(node, '::placeholder').color), background(node))), light(background(node))]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (ratio < 4.5) seen.add('contrast of a placeholder ' + ratio.toFixed(2) + ': ' + name(node))
  }
  return [...faults, ...seen]
})()`
