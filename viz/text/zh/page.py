"""The page around the tabs."""

TEXT = {
    "page.title": "注意力图谱",
    "page.tagline": "看 Transformer 怎样翻译，看它在看哪里。",
    "page.skip": "跳到输入框",
    "header.language": "页面语言",
    "header.theme": "切换浅色与深色",
    "tab.translate": "翻译",
    "tab.heads": "注意力头",
    "tab.steps": "逐步计算",
    "tab.positions": "位置编码",
    "tab.machine": "结构",
    "page.belongs": "这里显示的属于“{text}”。",
    "page.belongs.until": "新句子有结果之前不会变。",
    "footer.model": "注意力图和译文都来自已加载模型的真实计算；算的是别的东西时，会写明。",
}
