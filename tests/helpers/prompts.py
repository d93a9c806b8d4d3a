"""Twenty-four prompts of our own: talk, code, lists, sums, and copying, in which a lookup finds a lot."""

PROMPTS = {
    "chat-1": "Hello! What can you do for me on a rainy Sunday?",
    "chat-2": "Explain to a ten-year-old why the sky is blue.",
    "chat-3": "My sister is coming to visit. Suggest a short plan for the afternoon.",
    "chat-4": "What is the difference between a lake and a pond?",
    "chat-5": "Write the first lines of a story about a lighthouse keeper.",
    "chat-6": "Is it a good idea to learn the violin at forty?",
    "code-1": "Write a Python function that returns the larger of two numbers.",
    "code-2": "Write a Python loop that prints the numbers from 1 to 10.",
    "code-3": "How do I read a text file line by line in Python?",
    "code-4": "Write an SQL query that counts the rows of the table `orders`.",
    "list-1": "Name five rivers in Europe, one per line.",
    "list-2": "List the months of the year in order.",
    "list-3": "Give me a packing list for a weekend at the sea.",
    "list-4": "Name the eight planets of the solar system.",
    "maths-1": "What is 17 plus 25? Show the steps.",
    "maths-2": "A train goes 60 kilometres in 45 minutes. How fast is it?",
    "maths-3": "Count from 30 to 50.",
    "maths-4": "What are the first ten multiples of seven?",
    "copy-1": "Repeat this sentence three times: The ferry leaves the old harbour at nine in the morning.",
    "copy-2": "Copy this: red boat, green boat, blue boat, red boat, green boat, blue boat, red boat.",
    "copy-3": "Correct the spelling, nothing else: The gardner waters the roses every evening before he locks "
    "the gate, and the gardner feeds the cat every morning before he opens the gate.",
    "copy-4": "Here is a list: apple, pear, plum, cherry, apple, pear, plum, cherry. Write the same list again.",
    "copy-5": "Rename `a` to `width` in this code:\n\ndef area(a, b):\n    result = a * b\n    return result\n",
    "copy-6": "Summarise in one sentence: The library of the small town opens at ten. On Mondays the library of "
    "the small town stays closed. The library of the small town lends books, films and games.",
}
