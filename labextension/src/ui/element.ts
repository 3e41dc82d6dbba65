// Elements that React does not draw: in outputs of cells, and in parts of JupyterLab's own widgets.

/** An element with these attributes; what is in it is text, or elements. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: { [name: string]: string } = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** A button with a text. */
export function textButton(
  label: string,
  className: string,
  onClick: (event: MouseEvent) => unknown
): HTMLButtonElement {
  const button = element('button', { type: 'button', class: className }, label);
  button.onclick = onClick;
  return button;
}
